//! ONNX Runtime through its shared library.
//!
//! A process can have only one such library and one environment, so both are stored in a static.
//! Operators are timed in a separate session that writes a profile. The session also writes the
//! optimised graph, because the profile does not name values.

mod profile;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use metier_types::LockUnpoisoned;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor as OrtTensor, TensorElementType, ValueType};

use crate::operator_times::{EngineOperatorTime, median_times};
use crate::{Error, GraphSource, NamedTensor, TensorValues};

const ENGINE_NAME: &str = "onnxruntime";

/// The library of this process and its environment.
static OPEN_LIBRARY: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The library with a number of threads.
pub(crate) struct OrtLibrary {
    environment: Environment,
    threads: usize,
}

impl std::fmt::Debug for OrtLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl OrtLibrary {
    pub(crate) fn new(library: &Path, threads: usize) -> Result<Self, Error> {
        let failed = |why: String| Error::Library { path: library.to_path_buf(), why };
        let mut open = OPEN_LIBRARY.lock_unpoisoned();
        if let Some((other, environment)) = open.as_ref() {
            return match other == library {
                true => Ok(Self { environment: environment.clone(), threads }),
                false => Err(failed(format!("this process has already opened {}", other.display()))),
            };
        }
        let builder = ort::init_from(library).map_err(|error| failed(error.to_string()))?;
        let environment = builder.with_telemetry(false).build().map_err(|error| failed(error.to_string()))?;
        *open = Some((library.to_path_buf(), environment.clone()));
        Ok(Self { environment, threads })
    }

    pub(crate) fn load(&self, source: GraphSource<'_>) -> Result<OrtGraph, Error> {
        let ort_graph_source = match source {
            GraphSource::File(path) => OrtGraphSource::File(path.to_path_buf()),
            GraphSource::Bytes(bytes) => OrtGraphSource::Bytes(bytes.to_vec()),
        };
        let session = self.create_session(&ort_graph_source, None)?;
        let opened = Self { environment: self.environment.clone(), threads: self.threads };
        Ok(OrtGraph { opened, session, source: ort_graph_source, given: Vec::new() })
    }

    fn create_session(&self, source: &OrtGraphSource, profile: Option<&Path>) -> Result<Session, Error> {
        let mut builder = Session::builder(&self.environment).map_err(load_error)?;
        builder = builder.with_intra_threads(self.threads).map_err(load_error)?;
        builder = builder.with_inter_threads(1).map_err(load_error)?;
        builder = builder.with_log_level(LogLevel::Fatal).map_err(load_error)?;
        if let Some(folder) = profile {
            builder = builder.with_profiling(folder.join("profile")).map_err(load_error)?;
            builder = builder
                .with_optimized_model_path(folder.join(profile::OPTIMISED_GRAPH_FILE))
                .map_err(load_error)?;
        }
        match source {
            OrtGraphSource::File(path) => builder.commit_from_file(path).map_err(load_error),
            OrtGraphSource::Bytes(bytes) => builder.commit_from_memory(bytes).map_err(load_error),
        }
    }
}

/// Source of the graph, for further sessions.
enum OrtGraphSource {
    File(PathBuf),
    Bytes(Vec<u8>),
}

fn load_error<R>(error: ort::Error<R>) -> Error {
    Error::Load { engine: ENGINE_NAME, why: error.to_string() }
}

fn run_error(error: ort::Error) -> Error {
    Error::Run { engine: ENGINE_NAME, why: error.to_string() }
}

/// A graph and its inputs.
pub(crate) struct OrtGraph {
    opened: OrtLibrary,
    session: Session,
    source: OrtGraphSource,
    given: Vec<(String, DynValue)>,
}

impl OrtGraph {
    pub(crate) fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), Error> {
        let known: Vec<&str> = self.session.inputs().iter().map(|input| input.name()).collect();
        for input in inputs {
            if !known.contains(&input.name.as_str()) {
                let want = format!("one of {}", known.join(", "));
                return Err(Error::Input { name: input.name.clone(), got: "given".to_string(), want });
            }
        }
        self.given = inputs
            .iter()
            .map(|input| Ok((input.name.clone(), to_engine_value(input)?)))
            .collect::<Result<_, Error>>()?;
        Ok(())
    }

    /// Runs a session on the inputs; `with` reads the outputs before they are freed.
    fn run_session<T>(
        session: &mut Session,
        given: &[(String, DynValue)],
        with: impl FnOnce(&ort::session::SessionOutputs<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let inputs: Vec<(&str, SessionInputValue<'_>)> =
            given.iter().map(|(name, value)| (name.as_str(), value.into())).collect();
        let outputs = session.run(inputs).map_err(run_error)?;
        with(&outputs)
    }

    pub(crate) fn run(&mut self) -> Result<(), Error> {
        Self::run_session(&mut self.session, &self.given, |_| Ok(()))
    }

    pub(crate) fn run_for_outputs(&mut self) -> Result<Vec<NamedTensor>, Error> {
        Self::run_session(&mut self.session, &self.given, |outputs| {
            outputs.iter().map(|(name, value)| from_engine_value(name, &value)).collect()
        })
    }

    pub(crate) fn time_operators(&mut self, runs: usize) -> Result<Vec<EngineOperatorTime>, Error> {
        let folder = profile::ProfileFolder::new()?;
        let mut session = self.opened.create_session(&self.source, Some(folder.path()))?;
        // The first run is a warm-up.
        for _ in 0..=runs {
            Self::run_session(&mut session, &self.given, |_| Ok(()))?;
        }
        let file = session.end_profiling().map_err(run_error)?;
        let mut looks = folder.read_profile(Path::new(&file))?;
        if looks.len() > 1 {
            looks.remove(0);
        }
        Ok(median_times(looks))
    }
}

/// Converts an input to the engine's type.
fn to_engine_value(input: &NamedTensor) -> Result<DynValue, Error> {
    let misfit = |got: String, want: String| Error::Input { name: input.name.clone(), got, want };
    let count: usize = input.shape.iter().product();
    if count != input.values.len() {
        let got = format!("{} elements", input.values.len());
        return Err(misfit(got, format!("{count}, as in its shape")));
    }
    let shape: Vec<i64> = input.shape.iter().map(|size| *size as i64).collect();
    macro_rules! of {
        ($list:expr) => {
            OrtTensor::from_array((shape, $list.clone())).map(|tensor| tensor.into_dyn())
        };
    }
    let made = match &input.values {
        TensorValues::Float(list) => of!(list),
        TensorValues::Double(list) => of!(list),
        TensorValues::Int8(list) => of!(list),
        TensorValues::Int16(list) => of!(list),
        TensorValues::Int32(list) => of!(list),
        TensorValues::Int64(list) => of!(list),
        TensorValues::Uint8(list) => of!(list),
        TensorValues::Uint16(list) => of!(list),
        TensorValues::Uint32(list) => of!(list),
        TensorValues::Uint64(list) => of!(list),
        TensorValues::Bool(list) => of!(list),
    };
    made.map_err(|error| misfit(error.to_string(), "a tensor".to_string()))
}

/// Converts an output from the engine's type.
fn from_engine_value(name: &str, value: &DynValue) -> Result<NamedTensor, Error> {
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        let why = format!("output {name:?} is a {}, not a tensor", value.dtype());
        return Err(Error::Run { engine: ENGINE_NAME, why });
    };
    macro_rules! of {
        ($variant:ident, $type:ty) => {{
            let (shape, list) = value.try_extract_tensor::<$type>().map_err(run_error)?;
            (
                shape.iter().map(|size| (*size).max(0) as usize).collect(),
                TensorValues::$variant(list.to_vec()),
            )
        }};
    }
    let (shape, values) = match ty {
        TensorElementType::Float32 => of!(Float, f32),
        TensorElementType::Float64 => of!(Double, f64),
        TensorElementType::Int8 => of!(Int8, i8),
        TensorElementType::Int16 => of!(Int16, i16),
        TensorElementType::Int32 => of!(Int32, i32),
        TensorElementType::Int64 => of!(Int64, i64),
        TensorElementType::Uint8 => of!(Uint8, u8),
        TensorElementType::Uint16 => of!(Uint16, u16),
        TensorElementType::Uint32 => of!(Uint32, u32),
        TensorElementType::Uint64 => of!(Uint64, u64),
        TensorElementType::Bool => of!(Bool, bool),
        other => {
            let why = format!("output {name:?} is of type {other}, which is not supported");
            return Err(Error::Run { engine: ENGINE_NAME, why });
        }
    };
    Ok(NamedTensor { name: name.to_string(), shape, values })
}
