//! The built-in engine.
//!
//! It supports four element types. Other integers and booleans are converted to 32 bits, with which
//! its graphs compute. It reports operator times only in a log on stdout, which [`log`] captures.

mod adapt;
mod log;

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueView};
use rten_tensor::{AsView as _, Layout as _};

use crate::operators::{OperatorTime, medians};
use crate::{Error, Source, Tensor, Values};

const NAME: &str = "rten";

#[derive(Debug)]
pub(crate) struct Pool(Arc<ThreadPool>);

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        Self(Arc::new(ThreadPool::with_num_threads(threads)))
    }

    pub(crate) fn load(&self, source: Source<'_>) -> Result<Graph, Error> {
        let mut options = ModelOptions::with_all_ops();
        let loaded = match source {
            Source::File(path) => match rewritten(path, &mut options)? {
                Some(bytes) => options.load(bytes),
                None => options.load_file(path),
            },
            Source::Bytes(bytes) => {
                options.load(adapt::adapted(bytes).map_or_else(|| bytes.to_vec(), |adapted| adapted.bytes))
            }
        };
        let model = loaded.map_err(|error| Error::Load { engine: NAME, why: error.to_string() })?;
        Ok(Graph { model, pool: self.0.clone(), given: Vec::new() })
    }
}

/// Content of a file that has to be adapted for the engine, with its external weights registered in
/// `options`.
fn rewritten(path: &Path, options: &mut ModelOptions) -> Result<Option<Vec<u8>>, Error> {
    let content = |path: &Path| {
        let why =
            |error| Error::Load { engine: NAME, why: format!("cannot read {}: {error}", path.display()) };
        std::fs::read(path).map_err(why)
    };
    let Some(adapted) = adapt::adapted(&content(path)?) else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("."));
    for (name, taken) in adapted.beside {
        let file = metier_onnx::external_file(folder, &name).ok_or_else(|| {
            let why = format!("its weights are in {name:?}; want a file in the folder of the graph");
            Error::Load { engine: NAME, why }
        })?;
        options.external_data(&taken, content(&file)?);
    }
    Ok(Some(adapted.bytes))
}

/// A graph and its inputs.
pub(crate) struct Graph {
    model: Model,
    pool: Arc<ThreadPool>,
    given: Vec<(NodeId, Value)>,
}

impl Graph {
    pub(crate) fn give(&mut self, inputs: &[Tensor]) -> Result<(), Error> {
        let mut given = Vec::with_capacity(inputs.len());
        for input in inputs {
            let id = self.model.find_node(&input.name).filter(|id| self.model.input_ids().contains(id));
            let id = id.ok_or_else(|| Error::Input {
                name: input.name.clone(),
                got: "given".to_string(),
                want: format!("one of {}", self.names(self.model.input_ids()).join(", ")),
            })?;
            given.push((id, value(input)?));
        }
        self.given = given;
        Ok(())
    }

    fn names(&self, ids: &[NodeId]) -> Vec<String> {
        let name = |id: &NodeId| self.model.node_info(*id).and_then(|node| node.name().map(String::from));
        ids.iter().map(|id| name(id).unwrap_or_default()).collect()
    }

    fn with(&self, options: RunOptions) -> Result<Vec<Value>, Error> {
        let inputs = self.given.iter().map(|(id, value)| (*id, ValueOrView::View(value.as_view()))).collect();
        let options = options.with_thread_pool(Some(self.pool.clone()));
        self.model.run(inputs, self.model.output_ids(), Some(options)).map_err(|error| {
            let inside = error.node_path().into_iter().flatten().collect::<Vec<_>>().join(" in ");
            let why =
                if inside.is_empty() { error.to_string() } else { format!("{error} (operator {inside:?})") };
            Error::Run { engine: NAME, why }
        })
    }

    pub(crate) fn run(&mut self) -> Result<Vec<Value>, Error> {
        self.with(RunOptions::default())
    }

    pub(crate) fn outputs(&mut self) -> Result<Vec<Tensor>, Error> {
        let values = self.run()?;
        let names = self.names(self.model.output_ids());
        names.into_iter().zip(values).map(|(name, value)| tensor(name, &value.as_view())).collect()
    }

    pub(crate) fn operators(&mut self, runs: usize) -> Result<Vec<OperatorTime>, Error> {
        let mut looks = Vec::with_capacity(runs);
        for _ in 0..runs {
            let (done, said) = log::caught(|| self.with(RunOptions::default().with_verbose(true)))?;
            done?;
            looks.push(log::read(&said));
        }
        Ok(medians(looks))
    }
}

/// Converts an input to the engine's type.
fn value(input: &Tensor) -> Result<Value, Error> {
    let shape = input.shape.as_slice();
    let misfit =
        |got: String, want: &str| Error::Input { name: input.name.clone(), got, want: want.to_string() };
    let count: usize = shape.iter().product();
    if count != input.values.len() {
        return Err(misfit(
            format!("{} elements", input.values.len()),
            &format!("{count}, as its shape says"),
        ));
    }
    let narrow = |number: i64| {
        i32::try_from(number)
            .map_err(|_| misfit(number.to_string(), "numbers of 32 bits: rten computes with 32-bit integers"))
    };
    let integers = |list: Vec<i32>| {
        Value::from_shape(shape, list).map_err(|error| misfit(error.to_string(), "a tensor"))
    };
    let made = match &input.values {
        Values::Float(list) => Value::from_shape(shape, list.clone()).map_err(|error| error.to_string()),
        Values::Int8(list) => Value::from_shape(shape, list.clone()).map_err(|error| error.to_string()),
        Values::Uint8(list) => Value::from_shape(shape, list.clone()).map_err(|error| error.to_string()),
        Values::Int32(list) => return integers(list.clone()),
        Values::Int64(list) => {
            return integers(list.iter().map(|one| narrow(*one)).collect::<Result<_, _>>()?);
        }
        Values::Bool(list) => return integers(list.iter().map(|one| i32::from(*one)).collect()),
        other => {
            let kind = format!("{:?}", other.data_type()).to_lowercase();
            return Err(misfit(kind, "float, int8, uint8, int32, int64 or bool, the types of rten"));
        }
    };
    made.map_err(|error| misfit(error, "a tensor"))
}

/// Converts an output from the engine's type.
fn tensor(name: String, value: &ValueView<'_>) -> Result<Tensor, Error> {
    let shape = value.shape().to_vec();
    let values = match value {
        ValueView::FloatTensor(tensor) => Values::Float(tensor.to_vec()),
        ValueView::Int32Tensor(tensor) => Values::Int32(tensor.to_vec()),
        ValueView::Int8Tensor(tensor) => Values::Int8(tensor.to_vec()),
        ValueView::UInt8Tensor(tensor) => Values::Uint8(tensor.to_vec()),
        other => {
            let why = format!("output {name:?} is a {}, not a tensor", other.dtype());
            return Err(Error::Run { engine: NAME, why });
        }
    };
    Ok(Tensor { name, shape, values })
}
