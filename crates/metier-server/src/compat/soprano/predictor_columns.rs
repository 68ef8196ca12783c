//! A predictor file of XGBoost that replaces metier's predictors, with the meaning of each column.
//!
//! Columns are taken, in this order, from a file beside it (`net.json` → `net.columns.json`), from
//! the names in the predictor file, or from the original's order if the file has ten unnamed
//! columns. The file beside it is
//!
//! ```json
//! {"columns": [{"is": "conv_layers", "center": 74.0, "scale": 109.0}, {"is": "device", "equals": "jetson"}, …]}
//! ```
//!
//! `center` and `scale` are those of the scaler used in training, applied in double precision as
//! scikit-learn does. `equals` marks a column of a one-hot code. Names may be those of the training
//! table or of the request, with or without a transformer's prefix (`num__conv_layers`,
//! `cat__device_jetson`). Results equal XGBoost's, to the last bit (`metier_learn::xgboost`).

use std::io::Read;
use std::path::{Path, PathBuf};

use metier_learn::xgboost::XgboostPredictor;
use serde::Deserialize;

use crate::placement_cache::{FileInputs, FilePredictor};

const MAX_FILE_BYTES: u64 = 256 << 20;
/// Largest file of columns.
const MAX_COLUMNS_BYTES: u64 = 1 << 20;
/// The columns in the original's order.
const ORIGINAL_COLUMNS: [&str; 10] = [
    "conv_layers",
    "device_load_percent",
    "disk_io_read_bytes",
    "disk_io_write_bytes",
    "device_disk_usage_percent",
    "filter_details",
    "fully_conn_layers",
    "device",
    "pool_layers",
    "total_parameters",
];
const COLUMN_NAMES: &str = "conv_layers, pool_layers, fully_conn_layers, filter_details, total_parameters, disk_io_read_bytes, disk_io_write_bytes, device_load_percent, device_disk_usage_percent, device, or device_NAME";

/// Why a predictor file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A file that cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    /// The file is not from XGBoost, or of an unsupported kind.
    #[error("{}: {source}; want a predictor that XGBoost saved as JSON", path.display())]
    Predictor { path: PathBuf, source: metier_learn::Error },
    /// A column with an unknown meaning.
    #[error("{}: column {number} is {name:?}; want {COLUMN_NAMES}", path.display())]
    Column {
        path: PathBuf,
        /// Its number, from 1.
        number: usize,
        /// Its name.
        name: String,
    },
    /// The columns do not fit the predictor.
    #[error("{}: {got} columns; the predictor has {want}{}", path.display(), columns_advice(*.got))]
    Width {
        path: PathBuf,
        /// Number of named columns.
        got: usize,
        /// Number of columns in the predictor.
        want: usize,
    },
}

fn columns_advice(named: usize) -> &'static str {
    if named == 0 {
        " and does not name them; say what they are in a file beside it (NAME.columns.json)"
    } else {
        ""
    }
}

/// Meaning of a column.
#[derive(Debug, Clone, PartialEq)]
enum ColumnMeaning {
    Conv,
    Pool,
    Full,
    Filters,
    Parameters,
    Input,
    Output,
    Cpu,
    Disk,
    /// 0 for a Raspberry Pi, 1 for a Jetson.
    DeviceCode,
    /// 1 for a device whose name contains this text.
    DeviceIs(String),
}

#[derive(Debug, Clone, PartialEq)]
struct PredictorColumn {
    meaning: ColumnMeaning,
    center: f64,
    scale: f64,
}

/// A predictor of XGBoost, with the meaning of each column.
#[derive(Debug, Clone)]
pub struct PredictorColumns {
    predictor: XgboostPredictor,
    columns: Vec<PredictorColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnsFile {
    columns: Vec<NamedColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedColumn {
    is: String,
    equals: Option<String>,
    center: Option<f64>,
    scale: Option<f64>,
}

impl PredictorColumns {
    /// Opens a predictor file, and its file of columns if there is one.
    pub fn open(path: &Path) -> Result<Self, ColumnsError> {
        let text = read_bounded(path, MAX_FILE_BYTES)?;
        let predictor = XgboostPredictor::parse(&text)
            .map_err(|source| ColumnsError::Predictor { path: path.to_path_buf(), source })?;
        let beside = path.with_extension("columns.json");
        let columns = match beside.exists() {
            true => read_columns_file(&beside)?,
            false => columns_by_names(path, &predictor)?,
        };
        if columns.len() != predictor.width() {
            let path = if beside.exists() { beside } else { path.to_path_buf() };
            return Err(ColumnsError::Width { path, got: columns.len(), want: predictor.width() });
        }
        Ok(Self { predictor, columns })
    }
}

impl FilePredictor for PredictorColumns {
    fn predict(&self, inputs: &FileInputs<'_>) -> Result<f32, &'static str> {
        let mut row = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let value = column.meaning.value(inputs)?;
            // As scikit-learn's scaler: in double precision, before XGBoost converts to single.
            row.push(((value - column.center) / column.scale) as f32);
        }
        Ok(self.predictor.predict(&row))
    }
}

impl ColumnMeaning {
    fn value(&self, inputs: &FileInputs<'_>) -> Result<f64, &'static str> {
        let counts = &inputs.counts;
        let device = || inputs.device.map(str::to_lowercase).ok_or("the device's model");
        Ok(match self {
            Self::Conv => counts.conv_layers,
            Self::Pool => counts.pool_layers,
            Self::Full => counts.fc_layers,
            Self::Filters => counts.filter_details,
            Self::Parameters => counts.total_parameters,
            Self::Input => counts.model_input_size,
            Self::Output => counts.model_output_size,
            Self::Cpu => inputs.cpu_percent.ok_or("the load of the processor")?,
            Self::Disk => inputs.disk_percent.ok_or("the use of the disk")?,
            // The original encoded every other device as a Raspberry Pi; XGBoost handles missing
            // values instead.
            Self::DeviceCode => match device()? {
                name if name.contains("raspberry") => 0.0,
                name if name.contains("jetson") => 1.0,
                _ => f64::NAN,
            },
            Self::DeviceIs(text) => {
                let squeezed: String = device()?.chars().filter(char::is_ascii_alphanumeric).collect();
                f64::from(squeezed.contains(text.as_str()))
            }
        })
    }

    fn named(name: &str) -> Option<Self> {
        let name = name.rsplit("__").next().unwrap_or(name);
        Some(match name {
            "conv_layers" => Self::Conv,
            "pool_layers" => Self::Pool,
            "fully_conn_layers" | "fc_layers" => Self::Full,
            "filter_details" => Self::Filters,
            "total_parameters" => Self::Parameters,
            "disk_io_read_bytes" | "model_input_size" => Self::Input,
            "disk_io_write_bytes" | "model_output_size" => Self::Output,
            "device_load_percent" | "cpu_usage" | "cpu_usage(percentage)" => Self::Cpu,
            "device_disk_usage_percent" | "disk_usage" | "disk_usage(percentage)" => Self::Disk,
            "device" | "device_type" => Self::DeviceCode,
            other => return Self::device_column(other.strip_prefix("device_")?),
        })
    }

    /// One column of a one-hot code; 0 and 1 are the original's codes.
    fn device_column(word: &str) -> Option<Self> {
        let squeezed: String = word.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        let word = match squeezed.as_str() {
            "" => return None,
            "0" | "raspberrypi" => "raspberry".to_string(),
            "1" => "jetson".to_string(),
            _ => squeezed,
        };
        Some(Self::DeviceIs(word))
    }
}

fn read_columns_file(path: &Path) -> Result<Vec<PredictorColumn>, ColumnsError> {
    let unread = |reason: String| ColumnsError::Read { path: path.to_path_buf(), reason };
    let beside: ColumnsFile = serde_json::from_str(&read_bounded(path, MAX_COLUMNS_BYTES)?)
        .map_err(|error| unread(error.to_string()))?;
    let column = |(at, column): (usize, NamedColumn)| {
        let meaning = match (&column.equals, column.is.as_str()) {
            (Some(word), "device" | "device_type") => ColumnMeaning::device_column(word),
            (None, name) => ColumnMeaning::named(name),
            _ => None,
        };
        let number = at + 1;
        let name = column.equals.map_or(column.is.clone(), |word| format!("{} equals {word}", column.is));
        let meaning = meaning.ok_or_else(|| ColumnsError::Column {
            path: path.to_path_buf(),
            number,
            name: name.clone(),
        })?;
        let (center, scale) = (column.center.unwrap_or(0.0), column.scale.unwrap_or(1.0));
        if !center.is_finite() || !scale.is_finite() || scale == 0.0 {
            return Err(unread(format!(
                "column {number} ({name}) is scaled by {center} and {scale}; want finite numbers, the second not 0"
            )));
        }
        Ok(PredictorColumn { meaning, center, scale })
    };
    beside.columns.into_iter().enumerate().map(column).collect()
}

fn columns_by_names(path: &Path, predictor: &XgboostPredictor) -> Result<Vec<PredictorColumn>, ColumnsError> {
    let names: Vec<&str> = match predictor.names.as_slice() {
        [] if predictor.width() == ORIGINAL_COLUMNS.len() => ORIGINAL_COLUMNS.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let column = |(at, name): (usize, &str)| match ColumnMeaning::named(name) {
        Some(meaning) => Ok(PredictorColumn { meaning, center: 0.0, scale: 1.0 }),
        None => {
            Err(ColumnsError::Column { path: path.to_path_buf(), number: at + 1, name: name.to_string() })
        }
    };
    names.into_iter().enumerate().map(column).collect()
}

fn read_bounded(path: &Path, most: u64) -> Result<String, ColumnsError> {
    let unread = |reason: String| ColumnsError::Read { path: path.to_path_buf(), reason };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| unread(error.to_string()))?;
    file.take(most + 1).read_to_string(&mut text).map_err(|error| unread(error.to_string()))?;
    match text.len() as u64 > most {
        true => Err(unread(format!("it is larger than {most} bytes"))),
        false => Ok(text),
    }
}
