//! The content of a report: sections of blocks. HTML and Markdown are written from the same blocks,
//! so they agree.

/// Display style of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CellTone {
    #[default]
    Plain,
    /// A number, right-aligned.
    Number,
    /// A number for an improvement.
    Good,
    /// A number for a regression.
    Bad,
    Dim,
    /// A command or code.
    Code,
}

impl CellTone {
    /// CSS class in HTML.
    pub fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Number => "n",
            Self::Good => "n good",
            Self::Bad => "n bad",
            Self::Dim => "dim",
            Self::Code => "code",
        }
    }
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportCell {
    pub text: String,
    /// Display style.
    pub tone: CellTone,
}

impl ReportCell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: CellTone::Plain }
    }
    /// A quantity, or a dash if it is absent.
    pub fn number(value: Option<impl ToString>) -> Self {
        Self::with_tone(value.map_or_else(|| "–".to_string(), |value| value.to_string()), CellTone::Number)
    }
    pub fn with_tone(text: impl Into<String>, tone: CellTone) -> Self {
        Self { text: text.into(), tone }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportTable {
    /// Caption for screen readers; empty if the heading is enough.
    pub caption: String,
    /// Column names; empty for a list of labelled values.
    pub head: Vec<String>,
    /// The rows; the first cell of each row is its name.
    pub rows: Vec<Vec<ReportCell>>,
}

impl ReportTable {
    pub fn new(caption: &str, head: &[&str]) -> Self {
        Self {
            caption: caption.to_string(),
            head: head.iter().map(|name| (*name).to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Whether a column holds numbers, which are right-aligned.
    pub fn is_number(&self, column: &usize) -> bool {
        let cell = self.rows.first().and_then(|row| row.get(*column));
        cell.is_some_and(|cell| matches!(cell.tone, CellTone::Number | CellTone::Good | CellTone::Bad))
    }
}

/// A picture with its text alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportChart {
    pub title: String,
    /// Description of the picture.
    pub summary: String,
    /// Names of the lines with their colour numbers; empty for a single line.
    pub legend: Vec<(String, usize)>,
    /// SVG markup; all texts in it are escaped.
    pub svg: String,
    /// The same data as numbers.
    pub table: ReportTable,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportBlock {
    Text(String),
    /// A highlighted paragraph.
    Warning(String),
    Facts(Vec<(String, ReportCell)>),
    Table(ReportTable),
    Chart(ReportChart),
    /// A collapsed table of details, under a summary sentence.
    More(String, ReportTable),
    Copy(String),
    /// A picture that is too wide for Markdown; its texts are escaped.
    Flame {
        title: String,
        svg: String,
    },
}

/// A heading with its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSection {
    pub title: String,
    /// CSS class of the section.
    pub kind: &'static str,
    /// The blocks.
    pub blocks: Vec<ReportBlock>,
}
