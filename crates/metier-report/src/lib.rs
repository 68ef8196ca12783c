//! Reports and flame graphs: one file each that needs nothing else to be read.
