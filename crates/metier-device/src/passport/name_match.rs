//! Comparison of device names: `Raspberry Pi 4 Model B Rev 1.4` equals `raspberry-pi-4-model-b`;
//! `… 3 Model B` and `… 3 Model B+` differ.

/// Longer names are cut: no device has one, and a lookup stays cheap for untrusted input.
const MAX_NAME_CHARS: usize = 200;

/// The name in lower-case letters and digits; `+` becomes `plus`, because it denotes another board.
pub fn name_key(name: &str) -> String {
    let mut key = String::new();
    for letter in name.chars().take(MAX_NAME_CHARS) {
        match letter {
            '+' => key.push_str("plus"),
            _ => key.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric())),
        }
    }
    key
}

/// The key without additions to a board's name: revision, memory size, `Developer Kit`, maker.
pub fn reduced_name_key(name: &str) -> String {
    let mut rest = name_key(&without_revision(name));
    loop {
        let before = rest.len();
        for end in ["developerkit", "devkit", "engineeringreference", "ram", "sdcard", "emmc"] {
            if let Some(shorter) = rest.strip_suffix(end) {
                rest.truncate(shorter.len());
            }
        }
        if let Some(shorter) = rest.strip_suffix("gb").or_else(|| rest.strip_suffix("gib")) {
            let shorter = shorter.trim_end_matches(|letter: char| letter.is_ascii_digit());
            rest.truncate(shorter.len());
        }
        if let Some(shorter) = rest.strip_prefix("nvidia") {
            rest = shorter.to_string();
        }
        if rest.len() == before {
            return rest;
        }
    }
}

/// Strips a final `Rev 1.4`, also where its digits or dots were lost.
fn without_revision(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().take(MAX_NAME_CHARS).collect();
    let at = words.iter().position(|word| word.eq_ignore_ascii_case("rev"));
    match at {
        Some(at) if at > 0 => words[..at].join(" "),
        _ => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_punctuation_do_not_count_but_plus_does() {
        assert_eq!(name_key("Raspberry Pi 4 Model-B"), name_key("raspberry_pi_4_model_b"));
        assert_ne!(name_key("Raspberry Pi 3 Model B+"), name_key("Raspberry Pi 3 Model B"));
        assert_eq!(name_key("Raspberry Pi 3 Model B+"), name_key("Raspberry Pi 3 Model B Plus"));
        assert_eq!(name_key("  \u{0} --"), "");
    }

    #[test]
    fn what_firmware_adds_is_left_out() {
        for name in
            ["Raspberry Pi 4 Model B Rev 1.4", "Raspberry Pi 4 Model B Rev", "Raspberry Pi 4 Model B 8GB"]
        {
            assert_eq!(reduced_name_key(name), name_key("Raspberry Pi 4 Model B"), "{name}");
        }
        for name in [
            "NVIDIA Jetson Nano Developer Kit",
            "Jetson Nano 4 GB",
            "jetson-nano-devkit",
            "NVIDIA Jetson Nano ",
        ] {
            assert_eq!(reduced_name_key(name), "jetsonnano", "{name}");
        }
        assert_eq!(reduced_name_key("Rev"), "rev", "a name is not cut to nothing");
        assert_eq!(reduced_name_key(&"gb".repeat(100_000)).len(), 0);
    }
}
