//! The payload of `DUMP`: the type and the value, then the version in two bytes and the checksum in eight.

use crate::checksum::Checksum;
use crate::error::Fault;
use crate::version::Version;

const VERSION_SIZE: usize = 2;
const CHECKSUM_SIZE: usize = 8;

/// A payload whose version is known and whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// The version of its writer.
    pub version: Version,
    /// The byte of the type, for [`crate::ValueType::of_byte`].
    pub type_byte: u8,
    /// The value, for [`crate::decode`].
    pub value: &'a [u8],
}

/// The checks of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadChecks {
    /// The checksum is right.
    pub checksum: bool,
    /// The version is known. Otherwise types are read as those of the nearest known version.
    pub version: bool,
}

impl PayloadChecks {
    /// Everything.
    pub const ALL: Self = Self { checksum: true, version: true };
}

/// Why bytes are not a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// They are too short, of a version that is not known, or their checksum is wrong.
    #[error("payload version or checksum are wrong")]
    VersionOrChecksum,
    /// There is no type.
    #[error("no type")]
    NoType,
}

impl<'a> Payload<'a> {
    /// Opens a payload.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid payload.
    pub fn open(bytes: &'a [u8], checks: PayloadChecks) -> Result<Self, PayloadError> {
        let error = PayloadError::VersionOrChecksum;
        let (signed, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(error)?;
        let (value, version) = signed.split_last_chunk::<VERSION_SIZE>().ok_or(error)?;
        let number = u16::from_le_bytes(*version);
        let version =
            if checks.version { Version::of_number(number) } else { Version::of_any_number(number) };
        let version = version.map_err(|_: Fault| error)?;
        if checks.checksum && Checksum::of(signed) != u64::from_le_bytes(*checksum) {
            return Err(error);
        }
        let (&type_byte, value) = value.split_first().ok_or(PayloadError::NoType)?;
        Ok(Self { version, type_byte, value })
    }

    /// Appends version and checksum to a type and a value.
    pub fn seal(version: Version, out: &mut Vec<u8>) {
        out.extend(version.number.to_le_bytes());
        out.extend(Checksum::of(out).to_le_bytes());
    }
}

/// Returns the payload of `FUNCTION DUMP` for the sources of libraries.
pub fn write_libraries<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut encoder = crate::encode::Encoder::new(Version::V11, true);
    for source in sources {
        encoder.write_function(source, &mut payload);
    }
    Payload::seal(Version::V11, &mut payload);
    payload
}

/// Returns the sources of the libraries in a payload of `FUNCTION DUMP`.
///
/// # Errors
///
/// The bytes are not a valid payload.
pub fn read_libraries(bytes: &[u8]) -> Result<Vec<Vec<u8>>, LibrariesError> {
    let error = LibrariesError::VersionOrChecksum;
    let (signed, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(error)?;
    let (libraries, version) = signed.split_last_chunk::<VERSION_SIZE>().ok_or(error)?;
    Version::of_number(u16::from_le_bytes(*version)).map_err(|_: Fault| error)?;
    if Checksum::of(signed) != u64::from_le_bytes(*checksum) {
        return Err(error);
    }
    let mut input = crate::input::Input::new(libraries, 0);
    let mut sources = Vec::new();
    while input.position() < libraries.len() {
        if input.byte().map_err(|_| LibrariesError::Malformed)? != crate::cutter::FUNCTION {
            return Err(LibrariesError::NoFunction);
        }
        let source = input.text().map_err(|_| LibrariesError::Malformed)?;
        sources.push(crate::cutter::bytes(source).into_owned());
    }
    Ok(sources)
}

/// Why bytes are no payload of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibrariesError {
    /// They are too short, of a version that is not known, or their checksum is wrong.
    #[error("DUMP payload version or checksum are wrong")]
    VersionOrChecksum,
    /// An item is not a library.
    #[error("given type is not a function")]
    NoFunction,
    /// A library is cut short.
    #[error("failed loading the given functions payload")]
    Malformed,
}
