//! Selection of the rails that make up a whole board.
//!
//! Most boards have one rail that carries everything; adding its parts would count power twice. AGX
//! boards have none; there a fixed set of rails adds up to the board. Rails outside that set are
//! fed by a rail inside it.

use metier_types::Watts;

use super::BoardSnapshot;

/// Rails that carry a whole board: Nano; TX1, TX2, Xavier NX, Orin Nano and NX; Thor.
const WHOLE_BOARD_RAILS: [&str; 3] = ["POM_5V_IN", "VDD_IN", "VIN"];

/// Rails that add up to a board without such a rail: AGX Xavier, AGX Orin, AGX Thor.
const BOARD_RAIL_SETS: [&[&str]; 3] = [
    &["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"],
    &["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
    &["VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"],
];

/// Selects from `names` the rails that make up the whole board; `None` if they are unknown. An
/// incomplete set is rejected, so that partial power is not reported as the total.
pub fn find_board_rails<'a>(names: &[&'a str]) -> Option<Vec<&'a str>> {
    let find = |text: &str| names.iter().copied().find(|name| *name == text);
    if let Some(rail) = WHOLE_BOARD_RAILS.iter().find_map(|rail| find(rail)) {
        return Some(vec![rail]);
    }
    BOARD_RAIL_SETS.iter().find_map(|set| set.iter().map(|rail| find(rail)).collect())
}

impl BoardSnapshot {
    /// Present power of the whole board; `None` if its rails are unknown.
    pub fn power(&self) -> Option<Watts> {
        // Without collecting names: this runs for each line of a log.
        let now = |name: &str| self.rail(name).map(|rail| rail.milliwatts());
        let sum = |set: &[&str]| set.iter().map(|rail| now(rail)).sum::<Option<i64>>();
        let whole = WHOLE_BOARD_RAILS
            .iter()
            .find_map(|rail| now(rail))
            .or_else(|| BOARD_RAIL_SETS.iter().find_map(|set| sum(set)))?;
        Some(Watts(whole as f64 / 1e3))
    }

    /// Names of the rails that [`BoardSnapshot::board_power`] adds up.
    pub fn power_rails(&self) -> Vec<&str> {
        let names: Vec<&str> = self.rails.iter().map(|rail| rail.name.as_str()).collect();
        find_board_rails(&names).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rail_for_all_stands_alone_and_sets_must_be_complete() {
        assert_eq!(find_board_rails(&["VDD_CPU", "VDD_IN", "VDD_GPU"]), Some(vec!["VDD_IN"]));
        assert_eq!(find_board_rails(&["POM_5V_GPU", "POM_5V_IN"]), Some(vec!["POM_5V_IN"]));
        assert_eq!(
            find_board_rails(&["VIN_SYS_5V0", "VDD_GPU", "VDD_CPU_SOC_MSS", "VIN"]),
            Some(vec!["VIN"])
        );
        assert_eq!(
            find_board_rails(&["VIN_SYS_5V0", "VDDQ_VDD2_1V8AO", "VDD_GPU_SOC", "VDD_CPU_CV"]),
            Some(vec!["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"])
        );
        assert_eq!(find_board_rails(&["GPU", "CPU", "SOC", "CV", "VDDRQ"]), None, "SYS5V is not there");
        assert_eq!(find_board_rails(&[]), None);
    }
}
