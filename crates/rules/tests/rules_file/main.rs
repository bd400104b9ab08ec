//! Rules of a control plane: the rules file, deltas, sets made from both, and the directory that they are kept in.

mod applying;
mod damaged;
mod deltas;
mod directory;
mod made;
mod oracle;
mod writing;
