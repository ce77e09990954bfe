"""Linux's system calls that untrusted code may not make, by number.

All calls up to `NEWEST` were looked at. Calls that are needed to compute, to compile, and for its own files and
processes are allowed; what reaches other processes, the kernel's or the machine's state is listed here. Later calls do
not exist for untrusted code, until somebody has looked at them; libraries then do as on an older kernel.
"""

from __future__ import annotations

NEWEST = 456
"""The last number that was looked at: futex_requeue of Linux 6.7. From 424 on all architectures share the numbers."""

Numbers = dict[str, tuple[int | None, int | None]]
"""The numbers on x86_64 and on aarch64; None where there is no such call."""

REFUSED: Numbers = {
    # Memory and messages that outlive the process, and that others may open.
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Watching files: Landlock does not cover it.
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "inotify_rm_watch": (255, 28), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    # Attributes of files that are hidden: Landlock does not cover them either.
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    # Whoever leaves the group of its worker is not ended with it, nor stopped.
    "setsid": (112, 157), "setpgid": (109, 154),
    # Other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238),
    # The kernel.
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "lookup_dcookie": (212, 18),
    "syslog": (103, 116), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "create_module": (174, None),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "get_kernel_syms": (177, None),
    "query_module": (178, None), "nfsservctl": (180, 42), "uselib": (134, None), "_sysctl": (156, None),
    "sysfs": (139, None), "ustat": (136, None), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "personality": (135, 92),
    # File systems and namespaces.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "unshare": (272, 97), "setns": (308, 268), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    # The machine.
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "reboot": (169, 142), "vhangup": (153, 58),
}  # fmt: skip

PRETENDED: Numbers = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
"""Calls that do nothing and report success. They change who may use a file, and its times, by its path, which no filter
sees and Landlock does not cover. Compilers make some, and need none."""

UNKNOWN: Numbers = {
    # This ring makes calls that no filter sees.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # Its flags are in memory, where a filter cannot look; libraries then use clone.
    "clone3": (435, 435),
    "memfd_secret": (447, 447),
}  # fmt: skip
"""Calls that libraries do without where the kernel has none."""

OWN_ONLY: Numbers = {
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "prlimit64": (302, 261), "move_pages": (279, 239),
}  # fmt: skip
"""Calls whose first argument names a process: 0, the calling one, is allowed. Whoever may set the cores, the priority
or the limits of the user's processes slows the reference, and every program of the user with it."""
OWN_KIND: tuple[tuple[Numbers, int], ...] = ({"setpriority": (141, 140)}, 0), ({"ioprio_set": (251, 30)}, 1)
"""The same by the second argument, with what the first one must be: a process. For a group or a user 0 means one's own,
and the user's has everything that the user runs."""

IOCTL: Numbers = {"ioctl": (16, 29)}
SETS_ATTRIBUTES = (0x40086602, 0x401C5820, 0x40806685, 0x800C6613)
"""Requests of `ioctl` for lasting attributes of a file that may only be read: flags, project, verity, encryption."""
FCNTL: Numbers = {"fcntl": (72, 25)}
SETS_WATCHES = (1024, 1026)
"""Commands of `fcntl`: a lease, which keeps others from the file, and a notice of what happens in a folder."""

CLONE: Numbers = {"clone": (56, 220)}
NEW_NAMESPACES = 0x7E020000
"""The flags of `clone` for a new namespace of any kind."""

SOCKET: Numbers = {"socket": (41, 198)}
SOCKETPAIR: Numbers = {"socketpair": (53, 199)}
CONNECT: Numbers = {"connect": (42, 203)}
MEMFD: Numbers = {"memfd_create": (319, 279)}
MMAP: Numbers = {"mmap": (9, 222)}
SHARED_ANONYMOUS = 0x21
"""The flags of `mmap` for memory that, as that of `memfd_create`, no limit of a process counts."""
GROWS_DOWN = 0x100
"""The flag of `mmap` for a stack, which the limit of private memory does not count."""
