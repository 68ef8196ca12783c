//! The table between extraction and training: named number columns, a time for each row and, for
//! container rows, the container id.
//!
//! It reads and writes the CSV files of Kepler's pipelines. A first column without a name (row
//! numbers) is dropped, text columns other than `id` are left out, and an empty cell is NaN.
//! Limits: [`ROWS`] rows, [`MAX_FRAME_COLUMNS`] columns.

use std::io;

use crate::Error;
use crate::kepler_terms::PowerComponent;

pub const MAX_FRAME_ROWS: usize = 5_000_000;
pub const MAX_FRAME_COLUMNS: usize = 4096;

/// Named number columns, ordered by time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FeatureFrame {
    /// Seconds since 1970, one for each row.
    pub timestamps: Vec<f64>,
    /// Container id of each row for container tables; as long as `timestamps`.
    pub ids: Option<Vec<String>>,
    columns: Vec<(String, Vec<f64>)>,
}

impl FeatureFrame {
    /// A table with these times and no columns.
    pub fn new(timestamps: Vec<f64>, ids: Option<Vec<String>>) -> Result<Self, Error> {
        if let Some(ids) = ids.as_ref().filter(|ids| ids.len() != timestamps.len()) {
            return Err(Error::table(format!("{} ids; want {}", ids.len(), timestamps.len())));
        }
        Ok(Self { timestamps, ids, columns: Vec::new() })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Appends a column, or replaces the column of that name in place.
    pub fn set(&mut self, name: &str, values: Vec<f64>) -> Result<(), Error> {
        if values.len() != self.len() {
            return Err(Error::table(format!(
                "column {name} has {} values; want {}",
                values.len(),
                self.len()
            )));
        }
        if let Some((_, old)) = self.columns.iter_mut().find(|(known, _)| known == name) {
            *old = values;
        } else if self.columns.len() >= MAX_FRAME_COLUMNS {
            return Err(Error::table(format!("more than {MAX_FRAME_COLUMNS} columns")));
        } else {
            self.columns.push((name.to_string(), values));
        }
        Ok(())
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice())
    }

    /// The column of that name, or an error.
    pub fn need(&self, name: &str) -> Result<&[f64], Error> {
        self.column(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            Error::table(format!("column {name} is missing; there are {}", names.join(", ")))
        })
    }

    /// Column names in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Watts of a component: its own column, or the sum of its package columns. `None` if there is
    /// none.
    pub fn watts(&self, component: PowerComponent) -> Option<Vec<f64>> {
        if let Some(values) = self.column(&component.column()) {
            return Some(values.to_vec());
        }
        let end = format!("_{}", component.column());
        let mut sum: Option<Vec<f64>> = None;
        for (name, values) in &self.columns {
            if name.starts_with("package_") && name.ends_with(&end) {
                let sum = sum.get_or_insert_with(|| vec![0.0; values.len()]);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        sum
    }

    /// Appends the rows of another table with the same columns.
    pub fn append(&mut self, other: &Self) -> Result<(), Error> {
        let (own, others): (Vec<&str>, Vec<&str>) = (self.names().collect(), other.names().collect());
        if own != others || self.ids.is_some() != other.ids.is_some() {
            let why = format!("columns {} cannot go behind {}", others.join(", "), own.join(", "));
            return Err(Error::table(why));
        }
        if self.len() + other.len() > MAX_FRAME_ROWS {
            return Err(Error::table(format!("more than {MAX_FRAME_ROWS} rows")));
        }
        self.timestamps.extend_from_slice(&other.timestamps);
        if let (Some(ids), Some(others)) = (self.ids.as_mut(), other.ids.as_ref()) {
            ids.extend_from_slice(others);
        }
        for ((_, values), (_, others)) in self.columns.iter_mut().zip(&other.columns) {
            values.extend_from_slice(others);
        }
        Ok(())
    }

    /// The given rows in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let of = |values: &[f64]| rows.iter().map(|row| values[*row]).collect();
        Self {
            timestamps: of(&self.timestamps),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|row| ids[*row].clone()).collect()),
            columns: self.columns.iter().map(|(name, values)| (name.clone(), of(values))).collect(),
        }
    }

    /// Reads CSV with a header.
    pub fn read_csv(from: impl io::Read) -> Result<Self, Error> {
        let mut reader = csv::ReaderBuilder::new().from_reader(from);
        let header = reader.headers().map_err(|error| Error::table(error.to_string()))?.clone();
        if header.len() > MAX_FRAME_COLUMNS {
            return Err(Error::table(format!("{} columns; want at most {MAX_FRAME_COLUMNS}", header.len())));
        }
        let time = header
            .iter()
            .position(|name| name == "timestamp")
            .ok_or_else(|| Error::table("column timestamp is missing"))?;
        let id = header.iter().position(|name| name == "id");
        let mut frame = Self { ids: id.map(|_| Vec::new()), ..Self::default() };
        let mut columns: Vec<(usize, Option<Vec<f64>>)> = (0..header.len())
            .filter(|column| *column != time && Some(*column) != id && !header[*column].trim().is_empty())
            .map(|column| (column, Some(Vec::new())))
            .collect();
        for (row, record) in reader.records().enumerate() {
            if row >= MAX_FRAME_ROWS {
                return Err(Error::table(format!("more than {MAX_FRAME_ROWS} rows")));
            }
            let record = record.map_err(|error| Error::table(error.to_string()))?;
            let cell = |column: usize| record.get(column).unwrap_or_default().trim();
            let Ok(at) = cell(time).parse::<f64>() else {
                return Err(Error::table(format!(
                    "row {}: timestamp is {:?}; want seconds",
                    row + 1,
                    cell(time)
                )));
            };
            frame.timestamps.push(at);
            if let (Some(ids), Some(id)) = (frame.ids.as_mut(), id) {
                ids.push(cell(id).to_string());
            }
            for (column, values) in &mut columns {
                let text = cell(*column);
                let number = if text.is_empty() { Ok(f64::NAN) } else { text.parse::<f64>() };
                match (number, values.as_mut()) {
                    (Ok(number), Some(values)) => values.push(number),
                    // A text column, such as names of loads or machines.
                    (Err(_), _) => *values = None,
                    (Ok(_), None) => {}
                }
            }
        }
        for (column, values) in columns {
            if let Some(values) = values {
                frame.columns.push((header[column].to_string(), values));
            }
        }
        Ok(frame)
    }

    /// Writes CSV with a header: time, id if present, then the columns in order.
    pub fn write_csv(&self, to: impl io::Write) -> Result<(), Error> {
        let wrong = |error: csv::Error| Error::table(error.to_string());
        let mut writer = csv::Writer::from_writer(to);
        let mut record = vec!["timestamp".to_string()];
        record.extend(self.ids.is_some().then(|| "id".to_string()));
        record.extend(self.names().map(str::to_string));
        writer.write_record(&record).map_err(wrong)?;
        for row in 0..self.len() {
            record.clear();
            record.push(self.timestamps[row].to_string());
            record.extend(self.ids.as_ref().map(|ids| ids[row].clone()));
            record.extend(self.columns.iter().map(|(_, values)| match values[row] {
                value if value.is_nan() => String::new(),
                value => value.to_string(),
            }));
            writer.write_record(&record).map_err(wrong)?;
        }
        writer.flush().map_err(|error| Error::table(error.to_string()))
    }
}

/// The container name in an id; the id itself if it has none.
pub fn container_name(id: &str) -> &str {
    id.split('/').nth(2).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_survives_the_way_there_and_back() {
        let text =
            ",timestamp,load,name,package_power,id\n0,10,0.1,x,5.25,a/b\n1,13,,y,0.30000000000000004,c\n";
        let frame = FeatureFrame::read_csv(text.as_bytes()).unwrap();
        assert_eq!(frame.names().collect::<Vec<_>>(), ["load", "package_power"]);
        assert!(frame.column("load").unwrap()[1].is_nan());
        let mut out = Vec::new();
        frame.write_csv(&mut out).unwrap();
        let again = FeatureFrame::read_csv(out.as_slice()).unwrap();
        assert_eq!(again.column("package_power"), frame.column("package_power"));
        assert_eq!((again.ids, again.timestamps), (frame.ids, frame.timestamps));
    }

    #[test]
    fn watts_of_packages_are_added() {
        let mut frame = FeatureFrame::new(vec![1.0, 2.0], None).unwrap();
        frame.set("package_0_core_power", vec![1.0, 2.0]).unwrap();
        frame.set("package_1_core_power", vec![10.0, 20.0]).unwrap();
        frame.set("package_1_uncore_power", vec![100.0, 100.0]).unwrap();
        assert_eq!(frame.watts(PowerComponent::Core), Some(vec![11.0, 22.0]));
        assert_eq!(frame.watts(PowerComponent::Dram), None);
    }

    #[test]
    fn a_table_without_time_is_refused_by_name() {
        let error = FeatureFrame::read_csv("a,b\n1,2\n".as_bytes()).unwrap_err();
        assert!(error.to_string().contains("timestamp"), "{error}");
        let error = FeatureFrame::read_csv("timestamp,b\nnoon,2\n".as_bytes()).unwrap_err();
        assert!(error.to_string().contains("noon"), "{error}");
    }
}
