//! Numbers inside records and blobs: a change of one, of a type that Python names.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zerohop_client::{
    Blob, CommittedTransaction, Error, Keyspace, Operator, Promise, TransactionBlob, Transform,
};

use crate::answer::PythonAnswer;

macro_rules! numbers {
    ($($name:ident, $word:literal, $type:ty, $answer:ident, $wide:ty;)*) => {
        /// A change of one number, with its type.
        #[derive(Clone, Copy)]
        pub(crate) enum NumberChange {
            $($name(Transform<$type>),)*
        }

        impl NumberChange {
            /// From Python's arguments. Errors: unknown operator or type, an operand outside the
            /// type.
            pub(crate) fn new(
                operator: &str,
                kind: &str,
                operand: &Bound<'_, PyAny>,
                offset: u64,
            ) -> PyResult<Self> {
                let operator = operator_of(operator)?;
                match kind {
                    $($word => Ok(Self::$name(Transform::new(operator, operand.extract::<$type>()?).at(offset))),)*
                    other => Err(PyValueError::new_err(format!(
                        "a number is of one of the types {}, not {other:?}", [$($word),*].join(", ")
                    ))),
                }
            }

            /// Changes a number in a blob. Returns the new number.
            pub(crate) async fn of_blob(self, blob: &Blob<'_>) -> Result<PythonAnswer, Error> {
                Ok(match self {
                    $(Self::$name(change) => PythonAnswer::$answer(<$wide>::from(blob.transform(change).await?)),)*
                })
            }

            /// Changes a number in a blob within a transaction. The commit returns the new or the
            /// old number.
            pub(crate) async fn in_transaction(
                self,
                blob: &TransactionBlob<'_>,
                old: bool,
            ) -> Result<NumberPromise, Error> {
                Ok(match self {
                    $(Self::$name(change) if old => {
                        NumberPromise::$name(blob.transform_and_get_old(change).await?)
                    })*
                    $(Self::$name(change) => NumberPromise::$name(blob.transform(change).await?),)*
                })
            }

            /// Changes a number in a record. Returns the new number.
            pub(crate) async fn of_record(self, keyspace: &Keyspace, key: &[u8]) -> Result<PythonAnswer, Error> {
                Ok(match self {
                    $(Self::$name(change) => PythonAnswer::$answer(<$wide>::from(keyspace.transform(key, change).await?)),)*
                })
            }
        }

        /// A number that the commit of a transaction returns, with its type.
        pub(crate) enum NumberPromise {
            $($name(Promise<$type>),)*
        }

        impl NumberPromise {
            pub(crate) fn result(&self, committed: &CommittedTransaction) -> Result<PythonAnswer, Error> {
                Ok(match self {
                    $(Self::$name(promise) => {
                        PythonAnswer::$answer(<$wide>::from(committed.result(promise)?))
                    })*
                })
            }
        }
    };
}

numbers! {
    U8, "uint8", u8, Number, u64;
    U16, "uint16", u16, Number, u64;
    U32, "uint32", u32, Number, u64;
    U64, "uint64", u64, Number, u64;
    I8, "int8", i8, Signed, i64;
    I16, "int16", i16, Signed, i64;
    I32, "int32", i32, Signed, i64;
    I64, "int64", i64, Signed, i64;
    F32, "float32", f32, Float, f64;
    F64, "float64", f64, Float, f64;
}

fn operator_of(word: &str) -> PyResult<Operator> {
    Ok(match word {
        "add" => Operator::Add,
        "multiply" => Operator::Multiply,
        "min" => Operator::Min,
        "max" => Operator::Max,
        "and" => Operator::And,
        "or" => Operator::Or,
        "xor" => Operator::Xor,
        other => {
            return Err(PyValueError::new_err(format!(
                "a number is changed by add, multiply, min, max, and, or or xor, not {other:?}"
            )));
        }
    })
}
