package source

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/supply/store"
)

// layerFile is the layer in the folder of a rootfs or image.
const layerFile = "layer.tar"

// rootfs installs a Debian root file system and stores it as one layer.
func (b *Builder) rootfs(ctx context.Context, c *Component, dir string, say func(string)) (store.Meta, error) {
	work, err := store.WorkDir(dir)
	if err != nil {
		return store.Meta{}, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	root := filepath.Join(work, "root")
	var start time.Time
	install := func() error {
		start = time.Now() // without the time spent waiting
		say("installing Debian for " + c.Name)
		return b.debootstrap(ctx, c, root)
	}
	if err := b.roots.do(ctx, b.recipes.index(c.Name), install); err != nil {
		return store.Meta{}, err
	}
	for _, glob := range c.Remove {
		gone, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			return store.Meta{}, err
		}
		for _, g := range gone {
			if err := os.RemoveAll(g); err != nil {
				return store.Meta{}, err
			}
		}
	}
	l := layer{}
	if err := l.tree(root); err != nil {
		return store.Meta{}, err
	}
	made, err := l.writeFile(filepath.Join(dir, layerFile))
	if err != nil {
		return store.Meta{}, err
	}
	return store.Meta{Version: c.Suite, Digest: made.digest.String(), Seconds: time.Since(start).Seconds()}, nil
}

func (b *Builder) debootstrap(ctx context.Context, c *Component, root string) error {
	if os.Geteuid() != 0 {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "not_root", Message: "only root can create a Debian root file system", Cure: "run it as root, or use --images registry or bundle=FILE",
		}
	}
	if _, err := os.Stat(b.keyring); err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_keyring", Message: "Debian's signatures cannot be checked: " + b.keyring + " is missing",
			Cure: "apt-get install debian-archive-keyring", Err: err,
		}
	}
	// Without these, debootstrap goes on where the keyring or gpgv is missing.
	args := []string{"--keyring=" + b.keyring, "--force-check-gpg", "--variant=minbase", "--include=" + strings.Join(c.Debian, ","), c.Suite, root}
	if mirror := aptMirror(ctx, c.Suite); mirror != "" {
		args = append(args, mirror)
	}
	// After plain su, PATH lacks /sbin and /usr/sbin, which debootstrap needs.
	program, err := exec.LookPath("debootstrap")
	if err != nil {
		program = "/usr/sbin/debootstrap"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C",
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", fixedTime.Unix())) // respected by Debian's tools
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	isolate(cmd)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("debootstrap %s: %w: %s", c.Suite, err, tail(out.String()))
	}
	return nil
}

// keyring has the keys of Debian's releases, from package debian-archive-keyring.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// aptMirror returns the mirror of a suite in apt's configuration. If empty, debootstrap uses its default.
func aptMirror(ctx context.Context, suite string) string {
	out, err := run(ctx, "", nil, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 4 && f[1] == suite && f[2] == "main" && f[3] == "Packages" {
			return f[0]
		}
	}
	return ""
}

// tree adds a root file system with owners, symlinks and hard links. Devices, sockets and container mount points are
// skipped.
func (l layer) tree(root string) error {
	seen := map[inode]string{}
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if name == "." {
			return nil
		}
		switch path.Dir(name) {
		case "dev", "proc", "sys":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := stat(info)
		h := tar.Header{Mode: st.mode, Uid: st.uid, Gid: st.gid}
		switch {
		case d.IsDir():
			h.Typeflag = tar.TypeDir
			l.put(name, h, nil)
		case d.Type()&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(file); err != nil {
				return err
			}
			l.put(name, h, nil)
		case d.Type().IsRegular():
			h.Typeflag, h.Size = tar.TypeReg, info.Size()
			if first, ok := seen[st.inode]; ok && st.links > 1 {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
				l.put(name, h, nil)
				return nil
			}
			seen[st.inode] = name
			l.put(name, h, func() (io.ReadCloser, error) { return os.Open(file) })
		}
		return nil
	})
}

// fileStat is the metadata that a layer keeps.
type fileStat struct {
	mode     int64
	uid, gid int
	inode    inode
	links    uint64
}

type inode struct{ dev, ino uint64 }
