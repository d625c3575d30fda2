//! A plan as named files, wherever they are kept.

use std::path::Path;

use super::CompilerOutput;
use super::manifest::{ImageFile, ImageKind, MAX_PLAN_BYTES, Manifest, PLAN_FILE};
use crate::Error;
use crate::isa::CodeImage;

/// Names and bytes; the plan itself is the last.
pub(super) fn of_plan(plan: &CompilerOutput) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = Vec::with_capacity(plan.images.len() + 1);
    let mut images = Vec::with_capacity(plan.images.len());
    for (at, image) in plan.images.iter().enumerate() {
        let file = format!("image-{at}.bin");
        let bytes = image.encode();
        let kind = ImageKind::of(image);
        let crc32 = crc32fast::hash(&bytes);
        images.push(ImageFile { file: file.clone(), kind, bytes: bytes.len() as u64, crc32 });
        files.push((file, bytes));
    }
    let json = Manifest::new(plan, images).to_json()?;
    check_length(&json)?;
    files.push((PLAN_FILE.to_owned(), json.into_bytes()));
    Ok(files)
}

/// The plan in files that `file` gives by their names.
pub(super) fn from_files<B: AsRef<[u8]>>(
    file: impl Fn(&str) -> Option<B>,
) -> Result<CompilerOutput, Error> {
    let find = |name: &str| {
        let missing = || refuse(Path::new(name), "is missing, but the plan names it");
        file(name).ok_or_else(missing)
    };
    let json = find(PLAN_FILE)?;
    check_length(json.as_ref())?;
    to_plan(Manifest::from_json(json.as_ref())?, Path::new(""), |image| find(&image.file))
}

/// The plan of a manifest, with the images that `read` gives; `folder` is for errors.
pub(super) fn to_plan<B: AsRef<[u8]>>(
    manifest: Manifest,
    folder: &Path,
    read: impl Fn(&ImageFile) -> Result<B, Error>,
) -> Result<CompilerOutput, Error> {
    let image = |(at, file): (usize, &ImageFile)| {
        decode(&folder.join(&file.file), at, file, read(file)?.as_ref())
    };
    let images: Result<_, _> = manifest.images.iter().enumerate().map(image).collect();
    let plan = manifest.into_plan(images?);
    plan.check()?;
    Ok(plan)
}

fn decode(path: &Path, at: usize, file: &ImageFile, bytes: &[u8]) -> Result<CodeImage, Error> {
    if bytes.len() as u64 != file.bytes {
        let found = bytes.len();
        let expected = file.bytes;
        return Err(refuse(path, format!("{found} bytes, but the plan says {expected}")));
    }
    let crc32 = crc32fast::hash(bytes);
    if crc32 != file.crc32 {
        let expected = file.crc32;
        let reason = format!("checksum {crc32:#010x}, but images[{at}].crc32 is {expected:#010x}");
        return Err(refuse(path, reason));
    }
    let image = CodeImage::decode(bytes).map_err(|error| Error::Image {
        file: path.display().to_string(),
        error: Box::new(error),
    })?;
    if ImageKind::of(&image) == file.kind {
        Ok(image)
    } else {
        let reason = format!("its kind is not the {:?} of images[{at}].kind", file.kind);
        Err(refuse(path, reason))
    }
}

fn check_length(json: impl AsRef<[u8]>) -> Result<(), Error> {
    let bytes = json.as_ref().len();
    if bytes as u64 <= MAX_PLAN_BYTES {
        Ok(())
    } else {
        let reason = format!("{bytes} bytes of JSON, at most {MAX_PLAN_BYTES}");
        Err(refuse(Path::new(PLAN_FILE), reason))
    }
}

pub(super) fn refuse(path: &Path, reason: impl Into<String>) -> Error {
    Error::File { file: path.display().to_string(), reason: reason.into() }
}
