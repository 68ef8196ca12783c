//! Macros and traits for the table of run-file fields in [`super::file`].
//!
//! A row of the table is one field: its documentation, name, kind, expected form for messages and,
//! optionally, its flag: group, name, value, and help if it differs from the documentation.
//! `run_file_tables` generates from the rows the structs with their serialised form and JSON
//! Schema, the reader ([`FieldTable::document_reader`]), the flags ([`FieldTable::FLAGS`]) and the
//! places that flags write to ([`FieldTable::slot`]). A kind needs one line each in `field_kind`,
//! `read_field` and, if a flag sets it directly, `field_slot`.
//!
//! Rules across fields (one of command, image and pod, mounts of a pod, a dataset's store) are code
//! in [`super::check`]: as columns of the table they would be longer and less clear.

use std::collections::BTreeMap;
use std::time::Duration;

use super::document_reader::MapFields;

/// A part of a run file, described by table rows.
pub trait FieldTable: Sized {
    /// Flags of its fields.
    const FLAGS: &'static [RunFlag];

    /// Reads the fields from a map; an invalid value becomes a fault of the map.
    fn read(fields: &mut MapFields<'_>) -> Self;

    /// The field that a flag writes to.
    fn slot(&mut self, name: &str) -> FieldSlot<'_>;

    /// Names of the fields that differ from the default.
    fn given(&self) -> Vec<&'static str>;
}

/// Reference to a field, by the way a flag sets it.
pub enum FieldSlot<'a> {
    Text(&'a mut Option<String>),
    List(&'a mut Vec<String>),
    Table(&'a mut BTreeMap<String, String>),
    Switch(&'a mut bool),
    Count(&'a mut Option<u32>),
    Time(&'a mut Option<Duration>, fn(&str) -> Option<Duration>),
    /// Set only by a special rule.
    Other,
}

/// A flag of `metier run` that sets a field.
#[derive(Debug, PartialEq, Eq)]
pub struct RunFlag {
    /// Name without the dashes.
    pub name: &'static str,
    /// Dotted field name, such as `limits.memory`.
    pub field: &'static str,
    /// Placeholder of the value in help; empty for a switch.
    pub value: &'static str,
    pub(super) help: &'static str,
    pub group: FlagGroup,
    /// Whether it may be repeated.
    pub is_list: bool,
    /// Expected form, for messages.
    pub want: &'static str,
}

/// Group of flags in help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagGroup {
    Measuring,
    Surroundings,
    Dataset,
    Containers,
    Keeping,
}

impl RunFlag {
    /// Its help text.
    pub fn help_text(&self) -> String {
        let text = self.help.trim().trim_end_matches('.');
        if self.is_list { format!("{text}; may be given again") } else { text.to_string() }
    }
}

impl FlagGroup {
    pub const ALL: [Self; 5] =
        [Self::Measuring, Self::Surroundings, Self::Dataset, Self::Containers, Self::Keeping];

    /// Heading in help.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Measuring => "Measuring",
            Self::Surroundings => "Surroundings and limits",
            Self::Dataset => "Dataset",
            Self::Containers => "Containers and pods",
            Self::Keeping => "Keeping",
        }
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Serialises words of a command line. Words that are not UTF-8 cannot be represented exactly.
pub(super) fn serialize_words<S: serde::Serializer>(
    words: &[std::ffi::OsString],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

pub(super) fn serialize_time<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.map(super::quantity::duration_text).unwrap_or_default())
}

#[rustfmt::skip]
macro_rules! run_file_tables {
    ($(
        $(#[$meta:meta])*
        $name:ident $prefix:literal {$(
            #[doc = $doc:literal]
            $field:ident: $kind:ident $(($with:path))? = $want:expr
                $(, [$group:ident $flag:literal $value:literal $($help:literal)?])?;
        )+}
    )+) => {$(
        table_struct! { [$(#[$meta])*] $name [] $([#[doc = $doc]] $field $kind;)+ }

        impl FieldTable for $name {
            const FLAGS: &'static [RunFlag] = &[$($(RunFlag {
                name: $flag,
                field: concat!($prefix, stringify!($field)),
                value: $value,
                help: [$($help,)? $doc][0],
                group: FlagGroup::$group,
                is_list: is_list!($kind),
                want: $want,
            },)?)+];

            fn read(fields: &mut MapFields<'_>) -> Self {
                Self { $($field: read_field!($kind $($with)?; fields, stringify!($field), $want),)+ }
            }

            fn slot(&mut self, name: &str) -> FieldSlot<'_> {
                match name {
                    $(stringify!($field) => field_slot!($kind $($with)?; &mut self.$field),)+
                    _ => FieldSlot::Other,
                }
            }

            fn given(&self) -> Vec<&'static str> {
                let none = Self::default();
                let fields = [$((stringify!($field), self.$field != none.$field)),+];
                fields.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
            }
        }
    )+};
}

/// Generates the struct of a table, row by row.
#[rustfmt::skip]
macro_rules! table_struct {
    ([$($head:tt)*] $name:ident [$($out:tt)*]) => {
        $($head)*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($out)* }
    };
    ($head:tt $name:ident [$($out:tt)*] [$($doc:tt)+] $field:ident Required; $($rest:tt)*) => {
        table_struct! { $head $name [$($out)* $($doc)+ #[schemars(with = "ScalarSchema")] pub $field: String,] $($rest)* }
    };
    ($head:tt $name:ident [$($out:tt)*] [$($doc:tt)+] $field:ident Version; $($rest:tt)*) => {
        table_struct! { $head $name [$($out)* $($doc)+ #[serde(default)] pub $field: RecordSchema<RunFile>,] $($rest)* }
    };
    ($head:tt $name:ident $out:tt $doc:tt $field:ident $kind:ident; $($rest:tt)*) => {
        field_kind! { $kind [$head $name $out $doc $field] $($rest)* }
    };
    (@ [$head:tt $name:ident [$($out:tt)*] [$($doc:tt)+] $field:ident] [$($attributes:tt)*] $type:ty; $($rest:tt)*) => {
        table_struct! { $head $name [
            $($out)*
            $($doc)+ #[serde(default, skip_serializing_if = "is_default")] $($attributes)*
            pub $field: $type,
        ] $($rest)* }
    };
}

/// Attributes and type of a kind; an unlisted kind is a table itself.
#[rustfmt::skip]
macro_rules! field_kind {
    (Text $($row:tt)*) => { field_kind! { "Option<ScalarSchema>" Option<String>; $($row)* } };
    (Words $($row:tt)*) => { field_kind! { "Vec<ScalarSchema>" Vec<String>; $($row)* } };
    (Texts $($row:tt)*) => { field_kind! { "OneOrMoreSchema" Vec<String>; $($row)* } };
    (Table $($row:tt)*) => { field_kind! { "BTreeMap<String, ScalarSchema>" BTreeMap<String, String>; $($row)* } };
    (Stacks $($row:tt)*) => { field_kind! { "Option<StacksForm>" Option<u32>; $($row)* } };
    (Pod $($row:tt)*) => { field_kind! { "Option<ShortForm<Pod>>" Option<Pod>; $($row)* } };
    (Dataset $($row:tt)*) => { field_kind! { "Option<ShortForm<Dataset>>" Option<Dataset>; $($row)* } };
    (Mounts $($row:tt)*) => { field_kind! { "Vec<ShortForm<Mount>>" Vec<Mount>; $($row)* } };
    (Listen $($row:tt)*) => { field_kind! { "ListenForm" Listen; $($row)* } };
    (Command $($row:tt)*) => { field_kind! { "OneOrMoreSchema" serialize_words Vec<OsString>; $($row)* } };
    (Arguments $($row:tt)*) => { field_kind! { "Vec<ScalarSchema>" serialize_words Vec<OsString>; $($row)* } };
    (Time $($row:tt)*) => { field_kind! { "Option<ScalarSchema>" serialize_time Option<Duration>; $($row)* } };
    (Switch $row:tt $($rest:tt)*) => { table_struct! { @ $row [] bool; $($rest)* } };
    (Count $row:tt $($rest:tt)*) => { table_struct! { @ $row [] Option<u32>; $($rest)* } };
    (Ready $row:tt $($rest:tt)*) => { table_struct! { @ $row [] Option<Ready>; $($rest)* } };
    (Probes $row:tt $($rest:tt)*) => { table_struct! { @ $row [] Vec<Probe>; $($rest)* } };
    (Runs $row:tt $($rest:tt)*) => { table_struct! { @ $row [] Vec<NestedRun>; $($rest)* } };
    ($table:ident $row:tt $($rest:tt)*) => { table_struct! { @ $row [] $table; $($rest)* } };
    ($schema:literal serialize_words $type:ty; $row:tt $($rest:tt)*) => {
        table_struct! { @ $row [#[serde(serialize_with = "serialize_words")] #[schemars(with = $schema)]] $type; $($rest)* }
    };
    ($schema:literal serialize_time $type:ty; $row:tt $($rest:tt)*) => {
        table_struct! { @ $row [#[serde(serialize_with = "serialize_time")] #[schemars(with = $schema)]] $type; $($rest)* }
    };
    ($schema:literal $type:ty; $row:tt $($rest:tt)*) => {
        table_struct! { @ $row [#[schemars(with = $schema)]] $type; $($rest)* }
    };
}

/// Reader of a kind.
#[rustfmt::skip]
macro_rules! read_field {
    (Version; $fields:ident, $name:expr, $want:expr) => { forms::read_version($fields, $name, $want) };
    (Required; $fields:ident, $name:expr, $want:expr) => { $fields.text($name, $want).unwrap_or_default() };
    (Text; $fields:ident, $name:expr, $want:expr) => { $fields.text($name, $want) };
    (Command; $fields:ident, $name:expr, $want:expr) => { forms::read_command($fields, $name, $want) };
    (Arguments; $fields:ident, $name:expr, $want:expr) => { forms::read_arguments($fields, $name, $want) };
    (Words; $fields:ident, $name:expr, $want:expr) => { $fields.words($name, $want) };
    (Texts; $fields:ident, $name:expr, $want:expr) => { $fields.texts($name, $want) };
    (Table; $fields:ident, $name:expr, $want:expr) => { $fields.table($name, $want) };
    (Switch; $fields:ident, $name:expr, $want:expr) => { $fields.switch($name, $want) };
    (Count; $fields:ident, $name:expr, $want:expr) => { $fields.number($name, $want) };
    (Time $read:path; $fields:ident, $name:expr, $want:expr) => { $fields.time($name, $want, $read) };
    (Stacks; $fields:ident, $name:expr, $want:expr) => { forms::read_stacks($fields, $name, $want) };
    (Pod; $fields:ident, $name:expr, $want:expr) => { forms::read_short($fields, $name, $want, Pod::of) };
    (Dataset; $fields:ident, $name:expr, $want:expr) => { forms::read_short($fields, $name, $want, Dataset::of) };
    (Mounts; $fields:ident, $name:expr, $want:expr) => { forms::read_mounts($fields, $name, $want) };
    (Listen; $fields:ident, $name:expr, $want:expr) => { forms::read_listen($fields, $name, $want) };
    (Probes; $fields:ident, $name:expr, $want:expr) => { forms::read_probes($fields, $name, $want) };
    (Runs; $fields:ident, $name:expr, $want:expr) => { forms::read_runs($fields, $name, $want) };
    (Ready; $fields:ident, $name:expr, $want:expr) => { $fields.inner($name, $want, Ready::read) };
    ($table:ident; $fields:ident, $name:expr, $want:expr) => {
        $fields.inner($name, $want, $table::read).unwrap_or_default()
    };
}

/// Slot by which a flag sets a kind directly.
#[rustfmt::skip]
macro_rules! field_slot {
    (Text; $field:expr) => { FieldSlot::Text($field) };
    (Words; $field:expr) => { FieldSlot::List($field) };
    (Texts; $field:expr) => { FieldSlot::List($field) };
    (Table; $field:expr) => { FieldSlot::Table($field) };
    (Switch; $field:expr) => { FieldSlot::Switch($field) };
    (Count; $field:expr) => { FieldSlot::Count($field) };
    (Stacks; $field:expr) => { FieldSlot::Count($field) };
    (Time $read:path; $field:expr) => { FieldSlot::Time($field, $read) };
    ($other:ident; $field:expr) => { FieldSlot::Other };
}

/// Whether a flag of a kind may be repeated.
#[rustfmt::skip]
macro_rules! is_list {
    (Texts) => { true };
    (Table) => { true };
    (Mounts) => { true };
    (Listen) => { true };
    (Probes) => { true };
    (Runs) => { true };
    ($other:ident) => { false };
}
