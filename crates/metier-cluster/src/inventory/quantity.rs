//! Parses Kubernetes quantities: `100m`, `2`, `1.5`, `8Gi`, `129e6`, `512M`.

/// The value of a quantity; `None` if invalid.
pub fn parse_quantity(text: &str) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let number: f64 = number.parse().ok()?;
    let scale = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        _ => 10f64.powi(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|e| e.abs() <= 30)?),
    };
    Some(number * scale).filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_what_kubernetes_means() {
        for (text, want) in [
            ("100m", 0.1),
            ("2", 2.0),
            ("1.5", 1.5),
            ("8Gi", 8.0 * 1073741824.0),
            ("24054576Ki", 24054576.0 * 1024.0),
            ("129e6", 129e6),
            ("1E3", 1e3),
            ("512M", 512e6),
            ("2E", 2e18),
            ("0", 0.0),
        ] {
            assert_eq!(parse_quantity(text), Some(want), "{text}");
        }
        for text in ["", "x", "-1", "1x", "1e999", "1.2.3", "Gi", "1e"] {
            assert_eq!(parse_quantity(text), None, "{text}");
        }
    }
}
