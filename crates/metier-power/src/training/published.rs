//! Reads the data of the two published pipelines: SPECpower machines from tables, and six
//! bare-metal EC2 instances from query responses.

use serde_json::Value;

use super::tables::isolate_power;
use super::{MeasuredMachine, PipelinePlan, PowerTable, PowerTables, TrainingKnowledge};
use crate::Error;
use crate::frame::FeatureFrame;
use crate::isolate::{ALL_CONTAINERS, TableSubject};
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use crate::node::MachineSpec;

/// The EC2 instances with published measurements, in the order of their node types.
pub const EC2_INSTANCES: [&str; 6] =
    ["m5.metal", "i3.metal", "c5.metal", "r5.metal", "m5zn.metal", "m7i.metal-24xl"];
/// Suffix of their machine ids.
pub const EC2_IMAGE: &str = "ami-0e4d0bb9670ea8db0";

/// Table names listed in `index.json`.
pub fn index(text: &[u8]) -> Result<Vec<String>, Error> {
    let wrong = |why: &str| Error::file("index.json", why);
    let list: Value = serde_json::from_slice(text).map_err(|error| wrong(&error.to_string()))?;
    let Some(list) = list.as_array() else { return Err(wrong("is no list of names of CSV files")) };
    let name = |value: &Value| {
        let name =
            value.as_str().filter(|name| !name.contains("..") && !name.starts_with('/') && !name.is_empty());
        name.map(str::to_string).ok_or_else(|| wrong(&format!("{value} is no name of a CSV file")))
    };
    let names: Vec<String> = list.iter().map(name).collect::<Result<_, _>>()?;
    if names.is_empty() { Err(wrong("is empty")) } else { Ok(names) }
}

/// A SPECpower machine with its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecpowerMachine {
    /// The machine; its id is the file name without extension.
    pub machine: MeasuredMachine,
    /// `bpf_cpu_time_ms`, `bpf_page_cache_hit`, `platform_power`.
    pub rows: FeatureFrame,
}

/// Reads a SPECpower table. The first row describes the machine.
pub fn specpower(id: &str, text: &[u8]) -> Result<SpecpowerMachine, Error> {
    let file = format!("{id}.csv");
    let wrong = |why: String| Error::file(&file, why);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let header = reader.headers().map_err(|error| wrong(error.to_string()))?.clone();
    let column = |name: &str| {
        let place = header.iter().position(|known| known.trim() == name);
        place.ok_or_else(|| {
            let names: Vec<&str> = header.iter().collect();
            wrong(format!("column {name} is missing; there are {}", names.join(", ")))
        })
    };
    let first = reader.records().next().transpose().map_err(|error| wrong(error.to_string()))?;
    let Some(first) = first else { return Err(wrong("has no rows".to_string())) };
    let number = |name: &str| -> Result<f64, Error> {
        let text = first.get(column(name)?).unwrap_or_default().trim();
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        value.ok_or_else(|| wrong(format!("row 1: {name} is {text:?}; want a number above 0")))
    };
    let spec = MachineSpec {
        processor: Some(first.get(column("processor")?).unwrap_or_default().trim().to_string())
            .filter(|name| !name.is_empty()),
        cores: Some(number("cores")?),
        chips: Some(number("chips")?),
        memory: Some(number("memory_gb")?),
        frequency: Some(number("cpu_freq_mhz")?),
    };
    if spec.processor.is_none() {
        return Err(wrong("row 1: processor is empty".to_string()));
    }
    let all = FeatureFrame::read_csv(text).map_err(|error| wrong(error.to_string()))?;
    let ids = vec![ALL_CONTAINERS.to_string(); all.len()];
    let mut rows = FeatureFrame::new(all.timestamps.clone(), Some(ids))?;
    for name in FeatureGroup::BpfOnly.features().iter().copied().chain(["platform_power"]) {
        let values = all.need(name).map_err(|error| wrong(error.to_string()))?;
        if let Some(row) = values.iter().position(|value| !value.is_finite()) {
            return Err(wrong(format!("row {}: {name} is empty or no number", row + 1)));
        }
        rows.set(name, values.to_vec())?;
    }
    Ok(SpecpowerMachine { machine: MeasuredMachine { id: id.to_string(), spec }, rows })
}

/// Both tables of one machine; idle power is subtracted per machine.
pub fn specpower_tables(
    machine: &SpecpowerMachine,
    plan: &PipelinePlan,
    node_type: u32,
) -> Result<PowerTables, Error> {
    let mut rows = machine.rows.clone();
    rows.set("node_type", vec![f64::from(node_type); rows.len()])?;
    let about = TableSubject { source: EnergySource::Acpi, group: FeatureGroup::BpfOnly };
    let table =
        |output_type, frame| PowerTable { source: about.source, output_type, group: about.group, frame };
    let mut tables = PowerTables::default();
    if !plan.abs_trainers.is_empty() {
        tables.list.push(table(OutputType::AbsPower, rows.clone()));
    }
    if !plan.dyn_trainers.is_empty() {
        match isolate_power(&rows, about, TrainingKnowledge::default(), plan)? {
            Some(frame) => tables.list.push(table(OutputType::DynPower, frame)),
            None => tables.warnings.push(format!("{}: no DynPower rows", machine.machine.id)),
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "timestamp,platform_power,bpf_cpu_time_ms,bpf_page_cache_hit,processor,cores,chips,memory_gb,cpu_freq_mhz\n";

    #[test]
    fn a_table_of_specpower_says_who_the_machine_is() {
        let text =
            format!("{HEAD}1,50.5,0,0,intel_xeon_x,16,2,64,2600\n2,99,16000,5,intel_xeon_x,16,2,64,2600\n");
        let read = specpower("power_ssj2008-1", text.as_bytes()).unwrap();
        assert_eq!((read.machine.spec.cores, read.machine.spec.memory), (Some(16.0), Some(64.0)));
        assert_eq!(read.rows.column("platform_power").unwrap(), [50.5, 99.0]);
        let plan = PipelinePlan::new("specpower", metier_types::UtcTimestamp::UNIX_EPOCH);
        let tables = specpower_tables(&read, &plan, 7).unwrap();
        assert_eq!(tables.list.len(), 2);
        assert_eq!(
            tables.list[1].frame.column("platform_power").unwrap(),
            [0.0, 48.5],
            "without the machine's own least"
        );
        assert_eq!(tables.list[1].frame.column("node_type").unwrap(), [7.0, 7.0]);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_said_with_row_and_column() {
        for (text, word) in [
            ("timestamp,platform_power\n1,2\n".to_string(), "processor"),
            (HEAD.to_string(), "no rows"),
            (format!("{HEAD}1,50,0,0,x,many,2,64,2600\n"), "cores"),
            (format!("{HEAD}1,,0,0,x,4,2,64,2600\n"), "platform_power"),
            (format!("{HEAD}1,50,0,0,,4,2,64,2600\n"), "processor"),
        ] {
            let error = specpower("m", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("m.csv"), "{error}");
        }
        for text in ["{}", "[]", "[1]", "[\"../x\"]", "["] {
            assert!(index(text.as_bytes()).unwrap_err().to_string().contains("index.json"), "{text}");
        }
    }
}
