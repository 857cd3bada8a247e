//! `callboard journal verify`: reads everything and says whether it is sound.
//!
//! **Invariant**: damage that costs anything is exit code 1; a torn tail, which the next opening
//! cuts, is none.

use super::args::VerifyArgs;
use super::exit::Failure;

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let VerifyArgs { dir, json: _ } = args;
    super::journal::open(dir)?;
    Ok(())
}
