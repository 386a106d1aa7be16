package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"homelab/lab"
)

// write applies changes to the working tree, removals first. Each file is replaced atomically, applied changes are
// skipped, and nothing is written through a symlink that leaves the estate.
func (in *incoming) write(changes []change) error {
	root, err := os.OpenRoot(in.tree.Dir)
	if err != nil {
		return fmt.Errorf("estate: %w", err)
	}
	defer root.Close()
	for _, removals := range []bool{true, false} {
		for _, c := range changes {
			if (c.Result == entry{}) != removals {
				continue
			}
			if err := in.apply(root, c); err != nil {
				return fmt.Errorf("%s: %w", c.Path, err)
			}
		}
	}
	return nil
}

func (in *incoming) apply(root *os.Root, c change) error {
	if c.done {
		return nil
	}
	if c.Aside != "" {
		return replace(root, c.Aside, c.Theirs, in.texts[c.Theirs.Hash])
	}
	if c.Result == c.Was {
		return nil
	}
	now, err := entryOn(root.FS(), c.Path)
	if err != nil || now == c.Result {
		return err
	}
	if now != c.Was && now.Mode != modeFolder {
		return changedMeanwhile(c.Path)
	}
	if c.Result == (entry{}) {
		if err := root.Remove(c.Path); err != nil {
			return err
		}
		return prune(root, path.Dir(c.Path))
	}
	text := c.text
	if text == nil {
		known := false
		if text, known = in.texts[c.Result.Hash]; !known { // only its mode changes
			if text, err = fs.ReadFile(root.FS(), c.Path); err == nil && blobHash(text) != c.Result.Hash {
				err = changedMeanwhile(c.Path)
			}
			if err != nil {
				return err
			}
		}
	}
	return replace(root, c.Path, c.Result, text)
}

func changedMeanwhile(path string) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: "changed", Message: path + " was changed meanwhile", Cure: "try again"}
}

// prune removes empty folders, as Git does.
func prune(root *os.Root, dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil || len(entries) > 0 {
			return err
		}
		if err := root.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// temporary returns the name of a temporary file. It is derived from the path, so that a killed pull's leftover is
// overwritten.
func temporary(name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(path.Dir(name), ".lab-pull-"+hex.EncodeToString(sum[:6]))
}

// replace writes a file atomically.
func replace(root *os.Root, name string, e entry, text []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	tmp := temporary(name)
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		if err := removeEmpty(root, name); err != nil {
			return err
		}
	}
	if e.Mode == modeLink {
		if err := root.Symlink(string(text), tmp); err != nil {
			return err
		}
		return root.Rename(tmp, name)
	}
	var perm fs.FileMode = 0o666 // before the umask
	if e.Mode == modeExecutable {
		perm = 0o777
	}
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && info != nil && info.Mode().IsRegular() { // keep permissions
		keep := info.Mode().Perm() &^ 0o111
		if e.Mode == modeExecutable {
			keep |= keep & 0o444 >> 2
		}
		err = f.Chmod(keep)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return root.Rename(tmp, name)
}

// removeEmpty removes a folder that contains only empty folders.
func removeEmpty(root *os.Root, dir string) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := removeEmpty(root, path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return root.Remove(dir)
}
