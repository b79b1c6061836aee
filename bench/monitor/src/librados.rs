//! The C library of RADOS, loaded at run time, so that a build needs no Ceph. With a Python driver,
//! or a program per operation, the driver would limit the peer.
//!
//! ```text
//!   Library ── connect ──▶ Rados ── pool ──▶ Pool ── all(&mut [Operation]): sent together, all waited for
//! ```

#![allow(unsafe_code, reason = "a C library that is loaded while running; all of it is in this module")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use bench_common::failure::Failure;

/// The library's name in every distribution.
const NAME: &CStr = c"librados.so.2";

/// Resolve all symbols at load time.
const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int;
type TextFunction = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
type HandleFunction = unsafe extern "C" fn(Handle) -> c_int;
type End = unsafe extern "C" fn(Handle);
type OpenPool = unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> c_int;
type Completion = unsafe extern "C" fn(Handle, Handle, Handle, *mut Handle) -> c_int;
type Read = unsafe extern "C" fn(Handle, *const c_char, Handle, *mut c_char, usize, u64) -> c_int;
type Write = unsafe extern "C" fn(Handle, *const c_char, Handle, *const c_char, usize, u64) -> c_int;
type Append = unsafe extern "C" fn(Handle, *const c_char, Handle, *const c_char, usize) -> c_int;
type Stat = unsafe extern "C" fn(Handle, *const c_char, *mut u64, *mut i64) -> c_int;

/// Its functions, as `librados.h` declares them.
struct Library {
    create: Create,
    read_configuration: TextFunction,
    connect: HandleFunction,
    shutdown: End,
    open_pool: OpenPool,
    close_pool: End,
    completion: Completion,
    wait: HandleFunction,
    result: HandleFunction,
    release: End,
    read: Read,
    write: Write,
    append: Append,
    stat: Stat,
}

impl Library {
    fn load() -> Result<Library, Failure> {
        // SAFETY: the name is a C string; what is loaded is the library of the distribution, never unloaded.
        let library = unsafe { dlopen(NAME.as_ptr(), RTLD_NOW) };
        if library.is_null() {
            return Err(Failure::Usage("no librados.so.2 (run bench/blob/install)".into()));
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded, and the name is a C string.
            let found = unsafe { dlsym(library, name.as_ptr()) };
            match found.is_null() {
                true => Err(Failure::Usage(format!("librados.so.2 has no {}", name.to_string_lossy()))),
                false => Ok(found),
            }
        };
        macro_rules! function {
            ($name:literal, $kind:ty) => {{
                let found = find($name)?;
                // SAFETY: the symbol is not null, and the type is that of its declaration in `librados.h`.
                unsafe { std::mem::transmute::<*mut c_void, $kind>(found) }
            }};
        }
        Ok(Library {
            create: function!(c"rados_create", Create),
            read_configuration: function!(c"rados_conf_read_file", TextFunction),
            connect: function!(c"rados_connect", HandleFunction),
            shutdown: function!(c"rados_shutdown", End),
            open_pool: function!(c"rados_ioctx_create", OpenPool),
            close_pool: function!(c"rados_ioctx_destroy", End),
            completion: function!(c"rados_aio_create_completion", Completion),
            wait: function!(c"rados_aio_wait_for_complete", HandleFunction),
            result: function!(c"rados_aio_get_return_value", HandleFunction),
            release: function!(c"rados_aio_release", End),
            read: function!(c"rados_aio_read", Read),
            write: function!(c"rados_aio_write", Write),
            append: function!(c"rados_aio_append", Append),
            stat: function!(c"rados_stat", Stat),
        })
    }
}

/// A client of a cluster.
pub(crate) struct Rados {
    library: Library,
    cluster: Handle,
}

// SAFETY: by `librados.h` any number of threads may use a cluster handle at once; it is released
// once, when nothing borrows it.
unsafe impl Sync for Rados {}

/// A pool of the cluster; each thread has its own.
pub(crate) struct Pool<'r> {
    rados: &'r Rados,
    pool: Handle,
}

/// An operation on an object.
pub(crate) enum Operation<'a> {
    /// Reads its first bytes, all of which must exist.
    Read(&'a CStr, &'a mut [u8]),
    /// Writes its first bytes.
    Write(&'a CStr, &'a [u8]),
    /// Appends bytes.
    Append(&'a CStr, &'a [u8]),
}

impl Rados {
    /// Connects as the configuration says.
    pub(crate) fn connect(configuration: &Path) -> Result<Rados, Failure> {
        let library = Library::load()?;
        let path = text(&configuration.display().to_string())?;
        let mut cluster = ptr::null_mut();
        // SAFETY: the pointer to the handle is valid; a null name means the administrator's.
        done("creating a client", unsafe { (library.create)(&raw mut cluster, ptr::null()) })?;
        let rados = Rados { library, cluster };
        // SAFETY: the handle was created, and the path is a C string.
        let read = unsafe { (rados.library.read_configuration)(rados.cluster, path.as_ptr()) };
        done("reading the configuration", read)?;
        // SAFETY: the handle was created and has its configuration.
        done("connecting", unsafe { (rados.library.connect)(rados.cluster) })?;
        Ok(rados)
    }

    /// The pool of this name.
    pub(crate) fn pool(&self, name: &str) -> Result<Pool<'_>, Failure> {
        let name = text(name)?;
        let mut pool = ptr::null_mut();
        // SAFETY: the handle is connected, the name is a C string, the pointer to the pool is
        // valid.
        done("opening the pool", unsafe {
            (self.library.open_pool)(self.cluster, name.as_ptr(), &raw mut pool)
        })?;
        Ok(Pool { rados: self, pool })
    }
}

impl Drop for Rados {
    fn drop(&mut self) {
        // SAFETY: the handle was created, and pools borrow it, so that none is open.
        unsafe { (self.library.shutdown)(self.cluster) }
    }
}

impl Pool<'_> {
    /// Sends all operations, and waits for all of them.
    pub(crate) fn all(&self, operations: &mut [Operation<'_>]) -> Result<(), Failure> {
        let library = &self.rados.library;
        let mut under_way = Vec::with_capacity(operations.len());
        let mut result = Ok(());
        for operation in operations.iter_mut() {
            match self.send(operation) {
                Ok(sent) => under_way.push(sent),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // The library uses the buffers until all operations are complete, even if some have failed.
        for (completion, requested) in under_way {
            // SAFETY: the completion was created, its operation was accepted, and it is released
            // once, here.
            let status = unsafe {
                (library.wait)(completion);
                let status = (library.result)(completion);
                (library.release)(completion);
                status
            };
            let is_short = usize::try_from(status).is_ok_and(|status| status < requested);
            let checked = match is_short {
                true => Err(Failure::Protocol(format!("that an object has {status} bytes of {requested}"))),
                false => done("an operation", status),
            };
            result = result.and(checked);
        }
        result
    }

    /// Sends an operation. Returns its completion, and how many bytes it must read.
    fn send(&self, operation: &mut Operation<'_>) -> Result<(Handle, usize), Failure> {
        let library = &self.rados.library;
        let (none, mut completion) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pointer to the completion is valid, and there is no callback.
        done("making a completion", unsafe { (library.completion)(none, none, none, &raw mut completion) })?;
        let pool = self.pool;
        let (sent, requested) = match operation {
            Operation::Read(name, bytes) => {
                let (to, length) = (bytes.as_mut_ptr().cast(), bytes.len());
                // SAFETY: pool and completion are open; `all` borrows the bytes until this is complete.
                (unsafe { (library.read)(pool, name.as_ptr(), completion, to, length, 0) }, length)
            }
            Operation::Write(name, bytes) => {
                let (from, length) = (bytes.as_ptr().cast(), bytes.len());
                // SAFETY: as above; the library copies what it is given to write.
                (unsafe { (library.write)(pool, name.as_ptr(), completion, from, length, 0) }, 0)
            }
            Operation::Append(name, bytes) => {
                let (from, length) = (bytes.as_ptr().cast(), bytes.len());
                // SAFETY: as above.
                (unsafe { (library.append)(pool, name.as_ptr(), completion, from, length) }, 0)
            }
        };
        if sent < 0 {
            // SAFETY: it was created, and no operation was accepted with it.
            unsafe { (library.release)(completion) };
        }
        done("sending an operation", sent)?;
        Ok((completion, requested))
    }

    /// Bytes of an object; 0 if it does not exist.
    pub(crate) fn bytes(&self, name: &CStr) -> Result<u64, Failure> {
        const ABSENT: c_int = -2;
        let (mut bytes, mut changed) = (0, 0);
        // SAFETY: the pool is open, the name is a C string, and both pointers are valid.
        let status =
            unsafe { (self.rados.library.stat)(self.pool, name.as_ptr(), &raw mut bytes, &raw mut changed) };
        match status {
            ABSENT => Ok(0),
            status => done("looking at an object", status).map(|()| bytes),
        }
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // SAFETY: it was opened, and nothing is under way, since `all` waits.
        unsafe { (self.rados.library.close_pool)(self.pool) }
    }
}

/// A name as a C string.
pub(crate) fn text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::Usage(format!("a name with a zero in it: {text:?}")))
}

fn done(what: &str, status: c_int) -> Result<(), Failure> {
    if status < 0 { Err(Failure::Protocol(format!("{status} to {what}, of RADOS"))) } else { Ok(()) }
}
