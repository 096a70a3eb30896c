//! Users, owners and access control lists of Windows: the calls of the system that no safe crate offers.

#![expect(unsafe_code, reason = "these functions of Windows are foreign code; each call says why it is sound")]

use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut};

use tokio::net::windows::named_pipe::{NamedPipeClient, NamedPipeServer, PipeMode, ServerOptions};
use windows_sys::Win32::Foundation::{ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
    SE_KERNEL_OBJECT,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES, TOKEN_QUERY,
    TOKEN_USER, TokenUser,
};
use windows_sys::Win32::System::Pipes::{
    GetNamedPipeClientProcessId, GetNamedPipeServerProcessId, PIPE_READMODE_BYTE, SetNamedPipeHandleState,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_QUERY_LIMITED_INFORMATION,
};

/// Room for a user of a token, in words: the structure and the longest identifier, of 68 bytes.
const USER_WORDS: usize = 16;

/// Memory that the system allocated for its caller.
struct SystemMemory(*mut core::ffi::c_void);

impl Drop for SystemMemory {
    fn drop(&mut self) {
        // SAFETY: it was returned by a function whose documentation asks for LocalFree, and is freed once.
        unsafe { LocalFree(self.0) };
    }
}

fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_code(code: u32) -> io::Result<()> {
    if code == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(code as i32)) }
}

fn wide(text: &std::ffi::OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

/// Reads a text that ends with a zero.
///
/// # Safety
/// It must be valid and end with a zero.
unsafe fn text(start: *const u16) -> String {
    let mut length = 0;
    // SAFETY: everything up to the zero is valid.
    while unsafe { *start.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: as above.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Creates an instance of a pipe with this security descriptor, in the language of security descriptors (SDDL). Messages
/// are kept apart in the pipe and are read as bytes.
pub(super) fn create_pipe(path: &Path, first: bool, descriptor: &str) -> io::Result<NamedPipeServer> {
    let sddl = wide(descriptor.as_ref());
    let mut parsed: PSECURITY_DESCRIPTOR = null_mut();
    // SAFETY: the text ends with a zero; the result is written to a local variable.
    check(unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(sddl.as_ptr(), SDDL_REVISION_1, &mut parsed, null_mut())
    })?;
    let parsed = SystemMemory(parsed);
    let mut attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: parsed.0,
        bInheritHandle: 0,
    };
    let mut options = ServerOptions::new();
    options.first_pipe_instance(first).reject_remote_clients(true).pipe_mode(PipeMode::Message);
    // SAFETY: the attributes and the descriptor in them are valid during the call.
    let pipe = unsafe { options.create_with_security_attributes_raw(path, (&raw mut attributes).cast()) }?;
    let mode = PIPE_READMODE_BYTE;
    // SAFETY: the handle is open; the mode is read during the call only.
    check(unsafe { SetNamedPipeHandleState(pipe.as_raw_handle(), &mode, null(), null()) })?;
    Ok(pipe)
}

/// Returns the user of this process, as a security identifier such as `S-1-5-21-1-2-3-1000`.
pub(super) fn own_user() -> io::Result<String> {
    // SAFETY: it returns a constant that stands for this process.
    user_of(unsafe { GetCurrentProcess() })
}

/// Returns the user of a process.
pub(super) fn user_of_process(id: u32) -> io::Result<String> {
    // SAFETY: it takes numbers and returns a handle, or null.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, id) };
    if process.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open and belongs to nobody else.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    user_of(process.as_raw_handle())
}

fn user_of(process: HANDLE) -> io::Result<String> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the process is open; the token is written to a local variable.
    check(unsafe { OpenProcessToken(process, TOKEN_QUERY, &mut token) })?;
    // SAFETY: the handle is open and belongs to nobody else.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let mut buffer = [0_u64; USER_WORDS];
    let (size, mut written) = (size_of_val(&buffer) as u32, 0);
    // SAFETY: the buffer has the size that is passed.
    check(unsafe {
        GetTokenInformation(token.as_raw_handle(), TokenUser, buffer.as_mut_ptr().cast(), size, &mut written)
    })?;
    // SAFETY: the system has written this structure at the start of the buffer, which is aligned for it.
    let user = unsafe { &*buffer.as_ptr().cast::<TOKEN_USER>() };
    // SAFETY: the identifier is in the same buffer.
    unsafe { identifier(user.User.Sid) }
}

/// Returns a security identifier as text.
///
/// # Safety
/// It must be valid.
unsafe fn identifier(sid: PSID) -> io::Result<String> {
    let mut start = null_mut();
    // SAFETY: the identifier is valid; the text is written to a local variable.
    check(unsafe { ConvertSidToStringSidW(sid, &mut start) })?;
    let memory = SystemMemory(start.cast());
    // SAFETY: the system has written a text that ends with a zero.
    Ok(unsafe { text(memory.0.cast()) })
}

/// Returns the owner of a pipe as a security identifier.
pub(super) fn owner(pipe: &impl AsRawHandle) -> io::Result<String> {
    let mut owner: PSID = null_mut();
    let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
    // SAFETY: the handle is open; the results are written to local variables.
    check_code(unsafe {
        GetSecurityInfo(
            pipe.as_raw_handle(),
            SE_KERNEL_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &mut descriptor,
        )
    })?;
    let _descriptor = SystemMemory(descriptor);
    if owner.is_null() {
        return Err(io::Error::other("the pipe has no owner"));
    }
    // SAFETY: the owner is a part of the descriptor, which is not freed yet.
    unsafe { identifier(owner) }
}

/// Returns the process that created a pipe, or `None` if the system does not know it.
pub(super) fn server_process(pipe: &NamedPipeClient) -> io::Result<Option<u32>> {
    let mut id = 0;
    // SAFETY: the handle is open; the number is written to a local variable.
    check(unsafe { GetNamedPipeServerProcessId(pipe.as_raw_handle(), &mut id) })?;
    Ok((id != 0).then_some(id))
}

/// Returns the process that connected to a pipe, or `None` if the system does not know it.
pub(super) fn client_process(pipe: &NamedPipeServer) -> io::Result<Option<u32>> {
    let mut id = 0;
    // SAFETY: the handle is open; the number is written to a local variable.
    check(unsafe { GetNamedPipeClientProcessId(pipe.as_raw_handle(), &mut id) })?;
    Ok((id != 0).then_some(id))
}

/// Returns the owner and the access control list of a pipe, in the language of security descriptors.
#[cfg(test)]
pub(super) fn describe(pipe: &impl AsRawHandle) -> io::Result<String> {
    use windows_sys::Win32::Security::Authorization::ConvertSecurityDescriptorToStringSecurityDescriptorW;
    use windows_sys::Win32::Security::DACL_SECURITY_INFORMATION;
    let parts = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
    // SAFETY: the handle is open; the descriptor is written to a local variable.
    check_code(unsafe {
        GetSecurityInfo(
            pipe.as_raw_handle(),
            SE_KERNEL_OBJECT,
            parts,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            &mut descriptor,
        )
    })?;
    let descriptor = SystemMemory(descriptor);
    let mut start = null_mut();
    // SAFETY: the descriptor is valid; the text is written to a local variable.
    check(unsafe {
        ConvertSecurityDescriptorToStringSecurityDescriptorW(
            descriptor.0,
            SDDL_REVISION_1,
            parts,
            &mut start,
            null_mut(),
        )
    })?;
    let memory = SystemMemory(start.cast());
    // SAFETY: the system has written a text that ends with a zero.
    Ok(unsafe { text(memory.0.cast()) })
}
