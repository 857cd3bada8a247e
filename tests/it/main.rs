//! The one integration binary: scenarios in, transcripts out, and the rules of the house.

mod tidy;
