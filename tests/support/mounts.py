"""Runs with their output on a file system of their own, in a mount namespace; needs root. A test that may not mount is
skipped with a message."""

import os
import shlex
import shutil
import signal
import time
import unittest

import zpp


# `limited "$out"` mounts a file system there whose quota lets files take $limit bytes. Root may exceed quotas;
# as_limited runs a command without this right. A tmpfs has quotas since Linux 6.6, in kernels built with them. A Btrfs
# always has them; it needs its tools and loop devices.
LIMITED = r"""
as_limited() { setpriv --bounding-set=-sys_resource -- "$@"; }
in_force() { ! as_limited head -c $((2 * limit)) /dev/zero 2>/dev/null >"$out/probe" && rm "$out/probe"; }
limited_tmpfs() {
  mount -t tmpfs -o "size=$((4 * limit)),grpquota,grpquota_block_hardlimit=$limit" tmpfs "$out" &&
    chgrp 12345 "$out" && chmod g+s "$out"
}
limited_btrfs() {
  truncate -s 512m "$out.image" && mkfs.btrfs -q "$out.image" && mkdir "$out.top" &&
    mount -o loop "$out.image" "$out.top" && btrfs quota enable "$out.top" &&
    btrfs subvolume create "$out.top/limited" && btrfs qgroup limit "$limit" "$out.top/limited" &&
    mount --bind "$out.top/limited" "$out"
}
{ limited_tmpfs || limited_btrfs; } >/dev/null 2>&1 && in_force || {
  echo "no file system with quotas can be mounted here: neither a tmpfs nor, with btrfs-progs, a Btrfs" >&2
  exit 77
}
"""


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root and unshare")
class MountCase(zpp.TestCase):
    def inside(self, options, script, *words, **more):
        """Runs zpp_train with self.out on a tmpfs with `options`, beside the shell's `script`; prints what is left
        there, and what `after` says. With `at_line`, what once_running() made starts when the program prints it; once
        it is done, the run may be `asked_to_end`."""
        return self.on(f'mount -t tmpfs -o {options} tmpfs "$out" || exit 77', '"$@"', script, *words, **more)

    def inside_quota(self, limit, script, *words, **more):
        """Runs as inside() does, with a quota of `limit` bytes for all that is in self.out."""
        return self.on(f"limit={limit}\n{LIMITED}", 'as_limited "$@"', script, *words, **more)

    def on(self, mount, run, script, *words, ranks=2, at_line=None, asked_to_end=False, after=":"):
        self.out.mkdir()
        command = zpp.MPIRUN + ["-n", str(ranks), *zpp.train_command(*words, out=self.out)]
        text = (f'out={shlex.quote(str(self.out))}\n{mount}\n{script}\n'
                f'{run}; code=$?; ls -A "$out"; {after}; exit $code')
        process = zpp.Process(["unshare", "--mount", "/bin/sh", "-c", text, "sh", *command])
        self.addCleanup(process.stop)
        before = self.wait_for(process, at_line) if at_line is not None else ""
        if asked_to_end:
            while process.process.poll() is None and not (self.folder / "done").exists():
                time.sleep(0.02)
            for pid in process.pids("zpp_train"):
                os.kill(pid, signal.SIGUSR1)
        result = process.end()
        self.skip_unmounted(result.code, result.stderr)
        result.stdout = before + result.stdout
        return result

    def skip_unmounted(self, code, stderr):
        """Skips with the reason that the shell or unshare gave."""
        if code == zpp.SKIPPED or "unshare:" in stderr:
            self.skipTest(stderr.strip().splitlines()[0])

    def wait_for(self, process, line):
        try:
            found = process.wait_for_line(line)
        except AssertionError as ended:
            self.skip_unmounted(process.process.wait(), str(ended))
            raise
        self.go().touch()
        return found

    def go(self):
        return self.folder / "go"

    def once_running(self, script):
        """Argument for inside(): `script` beside the program, from the line on."""
        done = shlex.quote(str(self.folder / "done"))
        until = f"until [ -e {shlex.quote(str(self.go()))} ]; do sleep 0.02; done"
        return f"({until}; {script}; touch {done}) 2>/dev/null &"
