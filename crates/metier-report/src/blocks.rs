//! The content of a report: sections of blocks. HTML and Markdown are written from the same blocks,
//! so they agree.

/// Display style of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
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

impl Tone {
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
pub struct Cell {
    pub text: String,
    /// Display style.
    pub tone: Tone,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
    /// A quantity, or a dash if it is absent.
    pub fn number(value: Option<impl ToString>) -> Self {
        Self::toned(value.map_or_else(|| "–".to_string(), |value| value.to_string()), Tone::Number)
    }
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Caption for screen readers; empty if the heading is enough.
    pub caption: String,
    /// Column names; empty for a list of labelled values.
    pub head: Vec<String>,
    /// The rows; the first cell of each row is its name.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
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
        cell.is_some_and(|cell| matches!(cell.tone, Tone::Number | Tone::Good | Tone::Bad))
    }
}

/// A picture with its text alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub title: String,
    /// Description of the picture.
    pub summary: String,
    /// Names of the lines with their colour numbers; empty for a single line.
    pub legend: Vec<(String, usize)>,
    /// SVG markup; all texts in it are escaped.
    pub svg: String,
    /// The same data as numbers.
    pub table: Table,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    /// A highlighted paragraph.
    Warning(String),
    Facts(Vec<(String, Cell)>),
    Table(Table),
    Chart(Chart),
    /// A collapsed table of details, under a summary sentence.
    More(String, Table),
    Copy(String),
    /// A picture that is too wide for Markdown; its texts are escaped.
    Flame {
        title: String,
        svg: String,
    },
}

/// A heading with its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    /// CSS class of the section.
    pub kind: &'static str,
    /// The blocks.
    pub blocks: Vec<Block>,
}
