//! The system calls that a confined process may not make.
//!
//! They fail with an error, as if the system lacked the right or the call, so that programs report it as usual.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Mounts, keys, kernel modules and the like: capabilities guard most of them, but a namespace gives those away.
const NEVER: [libc::c_long; 23] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_acct,
];

/// Ways to a socket that no argument check can see.
const NO_NETWORK: [libc::c_long; 4] =
    [libc::SYS_connect, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The filters, to be installed in this order.
pub fn programs(network: bool) -> Result<Vec<BpfProgram>, Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = NEVER.into_iter().map(|call| (call, vec![])).collect();
    rules.insert(
        libc::SYS_ioctl,
        vec![rule(vec![is(1, libc::TIOCSTI)?])?, rule(vec![is(1, libc::TIOCLINUX)?])?],
    );
    if !network {
        rules.extend(NO_NETWORK.into_iter().map(|call| (call, vec![])));
        let other_family = condition(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?;
        // A datagram socket can name any address without connecting; streams have to connect.
        rules.insert(libc::SYS_socket, vec![rule(vec![other_family.clone()])?, rule(vec![is_datagram()?])?]);
        rules.insert(libc::SYS_socketpair, vec![rule(vec![other_family])?, rule(vec![is_datagram()?])?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(Error::Backend)?;
    let program: BpfProgram = filter.try_into().map_err(Error::Backend)?;
    Ok(vec![other_numbers(), program])
}

fn is_datagram() -> Result<SeccompCondition, Error> {
    const KIND: u64 = 0xf;
    condition(1, SeccompCmpOp::MaskedEq(KIND), libc::SOCK_DGRAM as u64)
}

fn is(argument: u8, value: u64) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    // The kernel looks at the lower half of these arguments only, so must the filter.
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(Error::Backend)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, Error> {
    SeccompRule::new(conditions).map_err(Error::Backend)
}

/// On x86-64 every call has a second number (the x32 interface), which the filter above would not know.
fn other_numbers() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let statement = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The number is the first member of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
