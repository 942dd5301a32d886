//! The Rust client of Decthings as a filter: reads tensors, each after a line with its size in bytes, and
//! says in a line what each is, in hex, and how this client writes it.

use std::io::{BufRead, Read, Write};

use decthings_api::tensor::{DecthingsTensor, OwnedDecthingsTensor};

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn describe(tensor: &DecthingsTensor) -> String {
    macro_rules! numbers {
        ($array:expr) => {
            $array.iter().map(|x| hex(&x.to_le_bytes())).collect()
        };
    }
    macro_rules! media {
        ($array:expr) => {
            $array
                .iter()
                .map(|x| format!("{}:{}", hex(x.format().as_bytes()), hex(&x.data)))
                .collect()
        };
    }
    let elements: Vec<String> = match tensor {
        DecthingsTensor::F32(a) => numbers!(a),
        DecthingsTensor::F64(a) => numbers!(a),
        DecthingsTensor::I8(a) => numbers!(a),
        DecthingsTensor::I16(a) => numbers!(a),
        DecthingsTensor::I32(a) => numbers!(a),
        DecthingsTensor::I64(a) => numbers!(a),
        DecthingsTensor::U8(a) => numbers!(a),
        DecthingsTensor::U16(a) => numbers!(a),
        DecthingsTensor::U32(a) => numbers!(a),
        DecthingsTensor::U64(a) => numbers!(a),
        DecthingsTensor::Boolean(a) => a.iter().map(|x| hex(&[u8::from(*x)])).collect(),
        DecthingsTensor::String(a) => a.iter().map(|x| hex(x.as_bytes())).collect(),
        DecthingsTensor::Binary(a) => a.iter().map(|x| hex(x)).collect(),
        DecthingsTensor::Image(a) => media!(a),
        DecthingsTensor::Audio(a) => media!(a),
        DecthingsTensor::Video(a) => media!(a),
    };
    format!(
        "{} {:?} {}",
        tensor.typ(),
        tensor.shape(),
        elements.join(",")
    )
}

fn main() -> std::io::Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let size = line.trim().parse().expect("a number of bytes");
        let mut data = vec![0; size];
        input.read_exact(&mut data)?;
        match OwnedDecthingsTensor::from_bytes(data.into()) {
            Ok(owned) => {
                let tensor = owned.tensor();
                writeln!(
                    output,
                    "{} | {}",
                    describe(&tensor),
                    hex(&tensor.serialize())
                )?;
            }
            Err(error) => writeln!(output, "refused: {error:?}")?,
        }
        line.clear();
    }
    Ok(())
}
