//! What a report is made of: sections of blocks. Both forms for people are written from the same ones, so they say the
//! same.

/// How a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    /// A number, at the right.
    Number,
    /// A number that is good news.
    Good,
    /// A number that is bad news.
    Bad,
    Dim,
    /// What can be typed.
    Code,
}

impl Tone {
    /// Its class in HTML.
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
    /// How it is meant.
    pub tone: Tone,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
    /// A quantity, or a dash.
    pub fn number(value: Option<impl ToString>) -> Self {
        Self::toned(value.map_or_else(|| "–".to_string(), |value| value.to_string()), Tone::Number)
    }
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// What it shows, for those who cannot see it; empty where the heading says it.
    pub caption: String,
    /// Names of its columns; empty for a list of labelled values.
    pub head: Vec<String>,
    /// Its rows; the first cell of each names it.
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

    /// Whether a column holds numbers, which stand at the right.
    pub fn is_number(&self, column: &usize) -> bool {
        let cell = self.rows.first().and_then(|row| row.get(*column));
        cell.is_some_and(|cell| matches!(cell.tone, Tone::Number | Tone::Good | Tone::Bad))
    }
}

/// A picture with the words that stand for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub title: String,
    /// What one sees in it.
    pub summary: String,
    /// Names of its lines, each with its colour's number; empty where there is one.
    pub legend: Vec<(String, usize)>,
    /// The picture, our own markup: every text in it is escaped.
    pub svg: String,
    /// The same as numbers.
    pub table: Table,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    /// A paragraph that deserves a look.
    Warning(String),
    Facts(Vec<(String, Cell)>),
    Table(Table),
    Chart(Chart),
    /// A table that most readers need not see, under a sentence that says what is in it.
    More(String, Table),
    Copy(String),
    /// A picture that is too wide for Markdown; our own markup.
    Flame {
        title: String,
        svg: String,
    },
}

/// A heading with what stands under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    /// What it is, as a class of the page.
    pub kind: &'static str,
    /// What stands under it.
    pub blocks: Vec<Block>,
}
