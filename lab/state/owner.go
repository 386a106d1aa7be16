package state

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"homelab/lab"
)

// caller is a process and the user who started it, perhaps with sudo.
type caller struct {
	euid   int
	getenv func(string) string
	lookup func(uid string) (*user.User, error)
}

func self() caller { return caller{euid: os.Geteuid(), getenv: os.Getenv, lookup: user.LookupId} }

// sudoer returns the user who runs lab as root with sudo; nil without sudo. The lab is that user's, not root's: otherwise one lab would have two states.
func (c caller) sudoer() (*user.User, error) {
	uid := c.getenv("SUDO_UID")
	if c.euid != 0 || uid == "" || uid == "0" {
		return nil, nil
	}
	u, err := c.lookup(uid)
	if err == nil {
		_, err = os.Stat(u.HomeDir)
	}
	if err != nil {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "no_home", Message: "sudo was called by user " + uid + ", whose home folder lab does not find", Err: err,
			Cure: "run it without sudo, or set XDG_STATE_HOME and XDG_CACHE_HOME",
		}
	}
	return u, nil
}

// home returns the folder that holds lab's folders by default.
func (c caller) home() (string, error) {
	if u, err := c.sudoer(); u != nil || err != nil {
		if err != nil {
			return "", err
		}
		return u.HomeDir, nil
	}
	return os.UserHomeDir()
}

// HandOver gives what lab wrote as root with sudo to the invoking user: the state and the cache of all labs.
func HandOver() error {
	c := self()
	var errs []error
	for _, root := range []func() (string, error){Root, CacheRoot} {
		if dir, err := root(); err == nil {
			errs = append(errs, c.handOver(dir))
		}
	}
	return errors.Join(errs...)
}

// handOver gives a file or folder of root, with what is in it and the folders around it, to the sudoer, if it is in one of the sudoer's folders.
func (c caller) handOver(path string) error {
	uid, err := strconv.Atoi(c.getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(c.getenv("SUDO_GID"))
	if c.euid != 0 || uid == 0 || err != nil || err2 != nil {
		return nil
	}
	var around []string // root's, up to the user's
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err == nil && belongsTo(info, uid) {
			break
		}
		if dir == filepath.Dir(dir) || err == nil && !info.IsDir() {
			return nil // outside of the sudoer's folders: XDG_STATE_HOME is elsewhere
		}
		around = append(around, dir)
	}
	for _, dir := range around {
		if err := give(dir, uid, gid); err != nil {
			return err
		}
	}
	return filepath.WalkDir(path, func(file string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return give(file, uid, gid)
	})
}

// give changes the owner of a file of root. It follows no link, and leaves a file that has another name: that may be elsewhere.
func give(file string, uid, gid int) error {
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !belongsTo(info, 0) || info.Mode().IsRegular() && links(info) > 1 {
		return err
	}
	return os.Lchown(file, uid, gid)
}
