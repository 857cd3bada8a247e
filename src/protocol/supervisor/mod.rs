//! The session graph: who exists, and who may talk to whom.
