//! Enums whose variants are words: one list gives all that reads and writes them.

/// A text that is none of an enum's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("want {}", want.join(", "))]
pub struct UnknownWord {
    /// The words, in the order of declaration.
    pub want: &'static [&'static str],
}

/// Defines an enum with a word for each variant.
///
/// It has `ALL` and `WORDS` in the order of declaration, `Display`, `FromStr`, and two methods
/// whose names stand in front: from a variant to its word, and from a text to the variant.
/// Spellings behind `|` are read but not written. With `serde` in front it is written and read by
/// these words in records too; `JsonSchema` may then be derived beside it.
///
/// ```
/// metier_types::words! { (word, from_word)
///     /// The state of a lamp.
///     #[derive(Hash)]
///     pub enum LampState { On = "on" | "lit", Off = "off" }
/// }
/// assert_eq!((LampState::On.word(), LampState::from_word("lit")), ("on", Some(LampState::On)));
/// assert_eq!("of".parse::<LampState>().unwrap_err().to_string(), "want on, off");
/// ```
#[macro_export]
macro_rules! words {
    (serde ($word:ident, $read:ident) $(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $text:literal $(| $other:literal)*),+ $(,)?
    }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $(#[$meta])*
        $vis enum $name { $($(#[$about])* #[serde(rename = $text)] $variant),+ }
        $crate::words!(@methods $word $read $vis $name $($variant = $text $(| $other)*),+);
    };
    (($word:ident, $read:ident) $(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $text:literal $(| $other:literal)*),+ $(,)?
    }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $(#[$meta])*
        $vis enum $name { $($(#[$about])* $variant),+ }
        $crate::words!(@methods $word $read $vis $name $($variant = $text $(| $other)*),+);
    };
    (@methods $word:ident $read:ident $vis:vis $name:ident
        $($variant:ident = $text:literal $(| $other:literal)*),+
    ) => {
        impl $name {
            /// Every variant, in the order of declaration.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];
            /// Words of [`Self::ALL`].
            $vis const WORDS: [&'static str; Self::ALL.len()] = [$($text),+];

            /// The word of a variant.
            $vis const fn $word(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// The variant of a word; `None` for any other text.
            $vis fn $read(text: &str) -> Option<Self> {
                match text {
                    $($text $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.$word())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::$read(text).ok_or($crate::words::UnknownWord { want: &Self::WORDS })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;

    words! { serde (word, from_word)
        #[derive(JsonSchema)]
        enum Shape {
            /// With corners.
            SharpEdged = "sharp-edged" | "sharp",
            /// Without.
            Round = "round",
        }
    }

    #[test]
    fn one_list_gives_words_text_records_and_schema() {
        assert_eq!(Shape::ALL.map(Shape::word), Shape::WORDS);
        assert_eq!(format!("{:>6}", Shape::Round), " round");
        for (text, shape) in [("sharp", Shape::SharpEdged), ("sharp-edged", Shape::SharpEdged)] {
            assert_eq!(text.parse(), Ok(shape));
        }
        assert_eq!("Round".parse::<Shape>().unwrap_err().to_string(), "want sharp-edged, round");
        assert_eq!(serde_json::to_value(Shape::ALL).unwrap(), serde_json::json!(Shape::WORDS));
        // What is written for people to type is not a word of records.
        assert!(serde_json::from_str::<Shape>("\"sharp\"").is_err());
        let schema = schemars::schema_for!(Shape).to_value();
        assert_eq!(schema["oneOf"][0]["const"], "sharp-edged");
    }
}
