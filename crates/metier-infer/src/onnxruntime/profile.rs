//! ONNX Runtime's profile: a list of events. A `Node` event with the suffix `_kernel_time` holds an
//! operator's time, and `model_run` ends an inference.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use metier_linux::scratch_folder::ScratchFolder;
use serde::Deserialize;

use crate::{EngineOperatorTime, Error};

/// File name of the optimised graph in the folder.
pub(super) const OPTIMISED_GRAPH_FILE: &str = "optimised.onnx";
/// Largest number of profile bytes read.
const MAX_PROFILE_BYTES: u64 = 512 << 20;

/// A temporary folder for a profile, removed on drop.
pub(super) struct ProfileFolder(ScratchFolder);

impl ProfileFolder {
    pub(super) fn new() -> Result<Self, Error> {
        ScratchFolder::new("profile").map(Self).map_err(|error| Error::Operators(error.to_string()))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Operators of each inference in execution order.
    pub(super) fn read_profile(&self, file: &Path) -> Result<Vec<Vec<EngineOperatorTime>>, Error> {
        let failed = |why: String| Error::Operators(format!("{}: {why}", file.display()));
        let content = File::open(file).map_err(|error| failed(error.to_string()))?;
        let events: Vec<ProfileEvent> =
            serde_json::from_reader(BufReader::new(content).take(MAX_PROFILE_BYTES))
                .map_err(|error| failed(error.to_string()))?;
        Ok(operators_by_inference(&events, &self.optimised_graph_values()))
    }

    /// Inputs and outputs of the optimised graph's operators by operator name; empty if that graph
    /// is unreadable.
    fn optimised_graph_values(&self) -> HashMap<String, (Vec<String>, Vec<String>)> {
        let bytes = std::fs::read(self.path().join(OPTIMISED_GRAPH_FILE)).unwrap_or_default();
        let Ok(model) = metier_onnx::read_onnx(&bytes, &metier_onnx::OnnxLimits::default()) else {
            return HashMap::new();
        };
        let named = model.graph.nodes.into_iter().filter(|node| !node.name.is_empty());
        named.map(|node| (node.name, (node.inputs, node.outputs))).collect()
    }
}

#[derive(Deserialize)]
struct ProfileEvent {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: ProfileArguments,
}

#[derive(Deserialize, Default)]
struct ProfileArguments {
    #[serde(default)]
    op_name: String,
}

fn operators_by_inference(
    events: &[ProfileEvent],
    values: &HashMap<String, (Vec<String>, Vec<String>)>,
) -> Vec<Vec<EngineOperatorTime>> {
    let mut all = Vec::new();
    let mut look = Vec::new();
    for event in events {
        if event.cat == "Session" && event.name == "model_run" {
            all.push(std::mem::take(&mut look));
        } else if event.cat == "Node"
            && let Some(name) = event.name.strip_suffix("_kernel_time")
            && !matches!(event.args.op_name.as_str(), "If" | "Loop" | "Scan")
        {
            let (inputs, outputs) = values.get(name).cloned().unwrap_or_default();
            let kind = event.args.op_name.clone();
            look.push(EngineOperatorTime {
                name: name.to_string(),
                kind,
                inputs,
                outputs,
                seconds: event.dur / 1e6,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"[
        {"cat":"Session","name":"model_loading_array","dur":900,"args":{}},
        {"cat":"Node","name":"a_kernel_time","dur":12,"args":{"op_name":"Conv","node_index":"0"}},
        {"cat":"Node","name":"branch_kernel_time","dur":40,"args":{"op_name":"If"}},
        {"cat":"Node","name":"a_fence_before","dur":1,"args":{"op_name":"Conv"}},
        {"cat":"Session","name":"model_run","dur":60},
        {"cat":"Node","name":"a_kernel_time","dur":10,"args":{"op_name":"Conv"}},
        {"cat":"Session","name":"model_run","dur":50}]"#;

    #[test]
    fn a_profile_is_read_inference_by_inference() {
        let events: Vec<ProfileEvent> = serde_json::from_str(PROFILE).unwrap();
        let values = [("a".to_string(), (vec!["x".to_string()], vec!["y".to_string()]))].into();
        let all = operators_by_inference(&events, &values);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((all[0][0].kind.as_str(), all[0][0].seconds), ("Conv", 12e-6));
        assert_eq!(
            (all[1][0].inputs.clone(), all[1][0].outputs.clone()),
            (vec!["x".into()], vec!["y".to_string()])
        );
    }
}
