//! The closed vocabularies of Kepler's interfaces. Their order matters: of components it is the
//! order in replies, of feature groups the order in which they are tried, and of a group's features
//! the column order of a predictor.

use std::fmt;

use metier_types::words;

use crate::Error;

pub mod third_party;

words! { serde (name, named)
    /// Whether idle power is included.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum OutputType {
        /// Power including idle: of nodes.
        AbsPower = "AbsPower",
        /// Power without idle and background: of containers and processes.
        DynPower = "DynPower",
    }
}

words! { serde (name, named)
    /// A part of a machine whose power is estimated.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum PowerComponent {
        Package = "package",
        Core = "core",
        /// The package without its cores.
        Uncore = "uncore",
        Dram = "dram",
        Platform = "platform",
    }
}

impl PowerComponent {
    /// Name of its watts column in a table.
    pub fn column(self) -> String {
        format!("{}_power", self.name())
    }
}

const RAPL: [PowerComponent; 4] =
    [PowerComponent::Package, PowerComponent::Core, PowerComponent::Uncore, PowerComponent::Dram];
const PLATFORM: [PowerComponent; 1] = [PowerComponent::Platform];

words! { (name, named)
    /// The meter that energy is read from.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum EnergySource {
        /// RAPL through sysfs; any name that contains `rapl` selects it.
        RaplSysfs = "rapl-sysfs",
        /// RAPL through registers of the processor.
        RaplMsr = "rapl-msr",
        /// The machine's own power meter.
        Acpi = "acpi",
        /// The management console of IBM machines.
        Hmc = "hmc",
        Redfish = "redfish",
        /// Estimates of another predictor.
        TrainedPowerModel = "trained_power_model",
    }
}

impl EnergySource {
    /// Source of a request: a missing name, or any name with `rapl` in it, means RAPL through
    /// sysfs.
    pub fn from_request(name: Option<&str>) -> Result<Self, Error> {
        match name {
            None => Ok(Self::RaplSysfs),
            Some(name) if name.contains("rapl") => Ok(Self::RaplSysfs),
            Some(name) => Self::named(name).ok_or_else(|| Error::Word {
                field: "source",
                got: shorten(name),
                want: Self::WORDS.join(", "),
            }),
        }
    }

    /// Components that the source measures, in the order of replies.
    pub const fn components(self) -> &'static [PowerComponent] {
        match self {
            Self::RaplSysfs | Self::RaplMsr | Self::TrainedPowerModel => &RAPL,
            Self::Acpi | Self::Hmc | Self::Redfish => &PLATFORM,
        }
    }
}

words! { (name, named)
    /// A group of features that are used together; in the order in which groups are tried.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum FeatureGroup {
        Full = "Full",
        /// All workload features.
        WorkloadOnly = "WorkloadOnly",
        CounterOnly = "CounterOnly",
        /// BPF counters of the kernel.
        BpfOnly = "BPFOnly",
        /// BPF counters of the kernel, with interrupts.
        BpfIrq = "BPFIRQ",
        CounterIrqCombined = "CounterIRQCombined",
        /// Hardware counters and BPF counters.
        Basic = "Basic",
        AcceleratorOnly = "AcceleratorOnly",
        /// Third-party metrics named by the user ([`third_party`]); empty if there are none.
        ThirdParty = "ThirdParty",
    }
}

impl FeatureGroup {
    /// Kepler's own features of workloads.
    pub const WORKLOAD: &[&str] = &[
        "accelerator_intel_qat",
        "bpf_block_irq",
        "bpf_cpu_time_ms",
        "bpf_net_rx_irq",
        "bpf_net_tx_irq",
        "bpf_page_cache_hit",
        "cache_miss",
        "cpu_cycles",
        "cpu_instructions",
    ];

    /// Its number in Kepler's own list.
    pub const fn id(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::WorkloadOnly => 2,
            Self::CounterOnly => 3,
            Self::BpfOnly => 4,
            Self::CounterIrqCombined => 6,
            Self::Basic => 7,
            Self::BpfIrq => 8,
            Self::AcceleratorOnly => 9,
            Self::ThirdParty => 10,
        }
    }

    /// Features in the column order of a predictor, which is alphabetical.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Self::Full => &[
                "accelerator_intel_qat",
                "bpf_block_irq",
                "bpf_cpu_time_ms",
                "bpf_net_rx_irq",
                "bpf_net_tx_irq",
                "bpf_page_cache_hit",
                "cache_miss",
                "cpu_cycles",
                "cpu_instructions",
                "cpu_scaling_frequency_hertz",
                "node_info",
            ],
            Self::WorkloadOnly => third_party::workload().unwrap_or(Self::WORKLOAD),
            Self::CounterOnly => &["cache_miss", "cpu_cycles", "cpu_instructions"],
            Self::BpfOnly => &["bpf_cpu_time_ms", "bpf_page_cache_hit"],
            Self::BpfIrq => &[
                "bpf_block_irq",
                "bpf_cpu_time_ms",
                "bpf_net_rx_irq",
                "bpf_net_tx_irq",
                "bpf_page_cache_hit",
            ],
            Self::CounterIrqCombined => &[
                "bpf_block_irq",
                "bpf_net_rx_irq",
                "bpf_net_tx_irq",
                "cache_miss",
                "cpu_cycles",
                "cpu_instructions",
            ],
            Self::Basic => {
                &["bpf_cpu_time_ms", "bpf_page_cache_hit", "cache_miss", "cpu_cycles", "cpu_instructions"]
            }
            Self::AcceleratorOnly => &["accelerator_intel_qat"],
            Self::ThirdParty => third_party::names(),
        }
    }

    /// Whether all features of the group are among these metrics.
    pub fn is_within<T: AsRef<str>>(self, metrics: &[T]) -> bool {
        let features = self.features();
        !features.is_empty()
            && features.iter().all(|feature| metrics.iter().any(|metric| metric.as_ref() == *feature))
    }
}

/// Index of the feature over which a component's curve is fitted. `None` if the list is empty.
///
/// Memory uses its traffic, all other components use computation.
pub fn main_feature<T: AsRef<str>>(component: PowerComponent, features: &[T]) -> Option<usize> {
    let texts: &[&str] = match component {
        PowerComponent::Dram => &["cache_miss", "bpf_page_cache_hit"],
        _ => &["cpu_instructions", "bpf_cpu_time_ms", "accelerator_intel_qat", "bpf_cpu_time_us"],
    };
    let place = |name: &&str| features.iter().position(|feature| feature.as_ref() == *name);
    texts.iter().find_map(place).or((!features.is_empty()).then_some(0))
}

words! { (name, named)
    /// A training algorithm; its name is the first part of a predictor's name.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum PowerTrainer {
        /// Squares and products, least squares.
        Polynomial = "PolynomialRegressionTrainer",
        /// A hundred trees of depth three.
        GradientBoosting = "GradientBoostingRegressorTrainer",
        /// The mean of six neighbours.
        KNeighbors = "KNeighborsRegressorTrainer",
        /// Least squares with coefficients that are not negative.
        Linear = "LinearRegressionTrainer",
        /// Support vectors with a Gaussian kernel.
        Svr = "SVRRegressorTrainer",
        /// A hundred trees of depth six, in XGBoost's format.
        Xgboost = "XgboostFitTrainer",
        /// A straight line by stochastic descent.
        Sgd = "SGDRegressorTrainer",
        /// `a·ln(b·s + 1) + c`.
        Logarithmic = "LogarithmicRegressionTrainer",
        /// `a/(1 + exp(-k·(s - s0))) + c`.
        Logistic = "LogisticRegressionTrainer",
        /// `a·exp(b·s) + c`.
        Exponential = "ExponentialRegressionTrainer",
        /// metier's own: an ensemble with monotone boosted trees, selected by held-out error.
        Auto = "AutoTrainer" | "auto",
    }
}

impl PowerTrainer {
    /// Kepler's ten trainers in its order.
    pub const KEPLER: [Self; 10] = {
        let [kepler @ .., _] = Self::ALL;
        kepler
    };

    /// The class name in a predictor's metadata.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Xgboost => "xgboost",
            Self::Logarithmic | Self::Logistic | Self::Exponential => "curvefit",
            Self::Auto => "metier",
            _ => "scikit",
        }
    }

    /// Whether its predictors can be exported to Kepler's exporter as weights.
    pub const fn has_weights(self) -> bool {
        matches!(self, Self::Sgd | Self::Logarithmic | Self::Logistic | Self::Exponential)
    }
}

/// Name of a predictor: trainer and node type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName {
    /// The text before the first `_`.
    pub trainer: String,
    /// The number after the last `_`.
    pub node_type: u32,
}

impl ModelName {
    /// Reads `<trainer>_<node type>`.
    pub fn read(name: &str) -> Option<Self> {
        let trainer = name.split('_').next().filter(|trainer| !trainer.is_empty())?;
        let digits = name.rsplit_once('_')?.1;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let node_type = if is_number { digits.parse().ok()? } else { return None };
        Some(Self { trainer: trainer.to_string(), node_type })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.trainer, self.node_type)
    }
}

/// Shortens user input for a message.
pub fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_stand_in_the_order_of_the_alphabet() {
        for group in FeatureGroup::ALL {
            assert!(group.features().is_sorted(), "{}", group.name());
            assert_eq!(FeatureGroup::named(group.name()), Some(group));
        }
    }

    #[test]
    fn curves_are_drawn_over_the_documented_feature() {
        let place = |group: FeatureGroup, component| main_feature(component, group.features());
        for (group, dram, other) in [
            (FeatureGroup::CounterOnly, 0, 2),
            (FeatureGroup::BpfOnly, 1, 0),
            (FeatureGroup::BpfIrq, 4, 1),
            (FeatureGroup::Basic, 2, 4),
        ] {
            assert_eq!(place(group, PowerComponent::Dram), Some(dram), "{}", group.name());
            assert_eq!(place(group, PowerComponent::Package), Some(other), "{}", group.name());
            assert_eq!(place(group, PowerComponent::Platform), Some(other), "{}", group.name());
        }
        assert_eq!(place(FeatureGroup::AcceleratorOnly, PowerComponent::Package), Some(0));
        assert_eq!(main_feature::<&str>(PowerComponent::Package, &[]), None);
    }

    #[test]
    fn whatever_has_rapl_in_it_is_rapl() {
        for name in [None, Some("intel_rapl"), Some("rapl-msr"), Some("rapl"), Some("rapl-sysfs")] {
            assert_eq!(EnergySource::from_request(name).unwrap(), EnergySource::RaplSysfs);
        }
        assert_eq!(EnergySource::from_request(Some("acpi")).unwrap(), EnergySource::Acpi);
        assert!(EnergySource::from_request(Some("sun")).unwrap_err().to_string().contains("\"sun\""));
    }

    #[test]
    fn names_of_predictors_are_read_from_both_ends() {
        let name = ModelName::read("XgboostFitTrainer_109").unwrap();
        assert_eq!((name.trainer.as_str(), name.node_type), ("XgboostFitTrainer", 109));
        assert_eq!(name.to_string(), "XgboostFitTrainer_109");
        for wrong in ["XgboostFitTrainer", "Xgboost_x", "_3", "Xgboost_-1", "Xgboost_+1", "", "X_99999999999"]
        {
            assert_eq!(ModelName::read(wrong), None, "{wrong}");
        }
    }
}
