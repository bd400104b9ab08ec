//! Processes that never outlive their test: killed when dropped, and by the kernel when the test process ends
//! without dropping anything.
//!
//! The kernel's part is `PR_SET_PDEATHSIG`, which a child sets for itself. Doing that between fork and exec
//! takes unsafe code; `setpriv` of util-linux does it for us. Where that is missing, dropping has to be enough.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process(Mutex<Child>);

/// A command whose process ends with ours, for [`Process::spawn`].
pub fn guarded(program: impl AsRef<OsStr>) -> Command {
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
    let Some(setpriv) = setpriv else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    // Replaces itself by the program, so the process id is the program's.
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

impl Process {
    pub fn spawn(command: Command) -> io::Result<Self> {
        spawn_from_lasting_thread(command).map(|child| Process(Mutex::new(child)))
    }

    pub fn id(&self) -> u32 {
        self.child().id()
    }

    /// How it ended, if it did.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// SIGKILL, and its end is waited for: its ports are free afterwards.
    pub fn kill(&self) {
        let mut child = self.child();
        // Fails only when it has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// SIGTERM: it ends by itself, when it has done what it does before.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGSTOP: sockets stay open and nobody answers. Waits until all its threads stand still, which takes a moment
    /// on a busy machine.
    pub fn stop(&self) {
        let id = self.signal(Signal::STOP);
        waitid(WaitId::Pid(id), WaitIdOptions::STOPPED).expect("it is a child of this process");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) -> Pid {
        let mut child = self.child();
        // The id of a process that was waited for may be somebody else's by now.
        assert!(matches!(child.try_wait(), Ok(None)), "the process has ended: it can't get {signal:?}");
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).unwrap_or_else(|error| panic!("can't send {signal:?}: {error}"));
        id
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

/// To the kernel the parent is a thread: a child of a test's thread would be killed when that one test is over,
/// though its server may be shared. So all are children of one thread that lasts as long as the process.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in orders {
                // Nobody waits for the reply any more: the child, unguarded, isn't wanted either.
                if let Err(mpsc::SendError(Ok(mut orphan))) = reply.send(command.spawn()) {
                    let _ = orphan.kill();
                }
            }
        });
        sender
    });
    let (reply, child) = mpsc::channel();
    spawner.send((command, reply)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
