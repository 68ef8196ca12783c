//! The built-in engine.
//!
//! It supports four element types. Other integers and booleans are converted to 32 bits, with which
//! its graphs compute. It reports operator times only in a log on stdout, which [`engine_log`]
//! captures.

mod engine_log;
mod graph_adaptation;

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueView};
use rten_tensor::{AsView as _, Layout as _};

use crate::operator_times::{EngineOperatorTime, median_times};
use crate::{Error, GraphSource, NamedTensor, TensorValues};

const ENGINE_NAME: &str = "rten";

#[derive(Debug)]
pub(crate) struct RtenRuntime(Arc<ThreadPool>);

impl RtenRuntime {
    pub(crate) fn new(threads: usize) -> Self {
        Self(Arc::new(ThreadPool::with_num_threads(threads)))
    }

    pub(crate) fn load(&self, source: GraphSource<'_>) -> Result<RtenGraph, Error> {
        let mut options = ModelOptions::with_all_ops();
        let loaded = match source {
            GraphSource::File(path) => match adapt_file(path, &mut options)? {
                Some(bytes) => options.load(bytes),
                None => options.load_file(path),
            },
            GraphSource::Bytes(bytes) => options.load(
                graph_adaptation::adapt_graph(bytes).map_or_else(|| bytes.to_vec(), |adapted| adapted.bytes),
            ),
        };
        let model = loaded.map_err(|error| Error::Load { engine: ENGINE_NAME, why: error.to_string() })?;
        Ok(RtenGraph { model, pool: self.0.clone(), given: Vec::new() })
    }
}

/// Content of a file that has to be adapted for the engine, with its external weights registered in
/// `options`.
fn adapt_file(path: &Path, options: &mut ModelOptions) -> Result<Option<Vec<u8>>, Error> {
    let content = |path: &Path| {
        let why = |error| Error::Load {
            engine: ENGINE_NAME,
            why: format!("cannot read {}: {error}", path.display()),
        };
        std::fs::read(path).map_err(why)
    };
    let Some(adapted) = graph_adaptation::adapt_graph(&content(path)?) else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("."));
    for (name, taken) in adapted.beside {
        let file = metier_onnx::external_file(folder, &name).ok_or_else(|| {
            let why = format!("its weights are in {name:?}; want a file in the folder of the graph");
            Error::Load { engine: ENGINE_NAME, why }
        })?;
        options.external_data(&taken, content(&file)?);
    }
    Ok(Some(adapted.bytes))
}

/// A graph and its inputs.
pub(crate) struct RtenGraph {
    model: Model,
    pool: Arc<ThreadPool>,
    given: Vec<(NodeId, Value)>,
}

impl RtenGraph {
    pub(crate) fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), Error> {
        let mut given = Vec::with_capacity(inputs.len());
        for input in inputs {
            let id = self.model.find_node(&input.name).filter(|id| self.model.input_ids().contains(id));
            let id = id.ok_or_else(|| Error::Input {
                name: input.name.clone(),
                got: "given".to_string(),
                want: format!("one of {}", self.node_names(self.model.input_ids()).join(", ")),
            })?;
            given.push((id, to_engine_value(input)?));
        }
        self.given = given;
        Ok(())
    }

    fn node_names(&self, ids: &[NodeId]) -> Vec<String> {
        let name = |id: &NodeId| self.model.node_info(*id).and_then(|node| node.name().map(String::from));
        ids.iter().map(|id| name(id).unwrap_or_default()).collect()
    }

    fn run_with(&self, options: RunOptions) -> Result<Vec<Value>, Error> {
        let inputs = self.given.iter().map(|(id, value)| (*id, ValueOrView::View(value.as_view()))).collect();
        let options = options.with_thread_pool(Some(self.pool.clone()));
        self.model.run(inputs, self.model.output_ids(), Some(options)).map_err(|error| {
            let inside = error.node_path().into_iter().flatten().collect::<Vec<_>>().join(" in ");
            let why =
                if inside.is_empty() { error.to_string() } else { format!("{error} (operator {inside:?})") };
            Error::Run { engine: ENGINE_NAME, why }
        })
    }

    pub(crate) fn run(&mut self) -> Result<Vec<Value>, Error> {
        self.run_with(RunOptions::default())
    }

    pub(crate) fn run_for_outputs(&mut self) -> Result<Vec<NamedTensor>, Error> {
        let values = self.run()?;
        let names = self.node_names(self.model.output_ids());
        names.into_iter().zip(values).map(|(name, value)| from_engine_value(name, &value.as_view())).collect()
    }

    pub(crate) fn time_operators(&mut self, runs: usize) -> Result<Vec<EngineOperatorTime>, Error> {
        let mut looks = Vec::with_capacity(runs);
        for _ in 0..runs {
            let (done, text) =
                engine_log::capture_stdout(|| self.run_with(RunOptions::default().with_verbose(true)))?;
            done?;
            looks.push(engine_log::parse_log(&text));
        }
        Ok(median_times(looks))
    }
}

/// Converts an input to the engine's type.
fn to_engine_value(input: &NamedTensor) -> Result<Value, Error> {
    let shape = input.shape.as_slice();
    let misfit =
        |got: String, want: &str| Error::Input { name: input.name.clone(), got, want: want.to_string() };
    let count: usize = shape.iter().product();
    if count != input.values.len() {
        return Err(misfit(format!("{} elements", input.values.len()), &format!("{count}, as in its shape")));
    }
    let narrow = |number: i64| {
        i32::try_from(number)
            .map_err(|_| misfit(number.to_string(), "numbers of 32 bits: rten computes with 32-bit integers"))
    };
    let integers = |list: Vec<i32>| {
        Value::from_shape(shape, list).map_err(|error| misfit(error.to_string(), "a tensor"))
    };
    let made = match &input.values {
        TensorValues::Float(list) => {
            Value::from_shape(shape, list.clone()).map_err(|error| error.to_string())
        }
        TensorValues::Int8(list) => Value::from_shape(shape, list.clone()).map_err(|error| error.to_string()),
        TensorValues::Uint8(list) => {
            Value::from_shape(shape, list.clone()).map_err(|error| error.to_string())
        }
        TensorValues::Int32(list) => return integers(list.clone()),
        TensorValues::Int64(list) => {
            return integers(list.iter().map(|number| narrow(*number)).collect::<Result<_, _>>()?);
        }
        TensorValues::Bool(list) => return integers(list.iter().map(|flag| i32::from(*flag)).collect()),
        other => {
            let kind = format!("{:?}", other.data_type()).to_lowercase();
            return Err(misfit(kind, "float, int8, uint8, int32, int64 or bool, the types of rten"));
        }
    };
    made.map_err(|error| misfit(error, "a tensor"))
}

/// Converts an output from the engine's type.
fn from_engine_value(name: String, value: &ValueView<'_>) -> Result<NamedTensor, Error> {
    let shape = value.shape().to_vec();
    let values = match value {
        ValueView::FloatTensor(tensor) => TensorValues::Float(tensor.to_vec()),
        ValueView::Int32Tensor(tensor) => TensorValues::Int32(tensor.to_vec()),
        ValueView::Int8Tensor(tensor) => TensorValues::Int8(tensor.to_vec()),
        ValueView::UInt8Tensor(tensor) => TensorValues::Uint8(tensor.to_vec()),
        other => {
            let why = format!("output {name:?} is a {}, not a tensor", other.dtype());
            return Err(Error::Run { engine: ENGINE_NAME, why });
        }
    };
    Ok(NamedTensor { name, shape, values })
}
