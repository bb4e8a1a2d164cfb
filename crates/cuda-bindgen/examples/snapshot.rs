//! Writes the snapshot for the include folder of the first argument into the folder of the second.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(include), Some(out)) = (args.next(), args.next()) else {
        return Err("usage: snapshot INCLUDE OUT".into());
    };
    let headers = cuda_bindgen::Headers::open(include.as_ref())?;
    for (name, text) in cuda_bindgen::snapshot(&headers)? {
        std::fs::write(std::path::Path::new(&out).join(name), text)?;
    }
    Ok(())
}
