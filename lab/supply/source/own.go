package source

import (
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"homelab/lab"
	"homelab/lab/door"
	"homelab/lab/front"
	"homelab/lab/gate"
)

// ownModule is a module embedded in lab.
type ownModule struct {
	goMod, goSum string
	source       fs.FS
}

func ownSource(module string) (ownModule, bool) {
	switch module {
	case door.Module:
		return ownModule{door.GoMod, "", door.Source()}, true
	case front.Module:
		return ownModule{front.GoMod, front.GoSum, front.Source()}, true
	case gate.Module:
		return ownModule{gate.GoMod, "", gate.Source()}, true
	}
	return ownModule{}, false
}

// CodeNoGo is the code of the error that lab's own image cannot be built without Go.
const CodeNoGo = "no_go"

// Own reports whether a component consists only of lab's own source: it can be built wherever Go is, and is not
// available elsewhere.
func (r *Recipes) Own(name string) bool {
	c, ok := r.Get(name)
	if !ok || c.Kind != KindImage || c.Base != "" {
		return ok && c.Own
	}
	for _, content := range c.Contents {
		if content.Module != "" || content.From != "" && !r.Own(content.From) {
			return false
		}
	}
	return len(c.Needs()) > 0
}

// possible returns an error if a component cannot be built on this machine.
func (b *Builder) possible(c *Component) error {
	if !b.recipes.Own(c.Name) {
		return b.recipes.Possible()
	}
	if _, err := exec.LookPath("go"); err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: CodeNoGo, Message: c.Name + " is lab's own and must be built here, without Go on this machine",
			Cure: "install Go from https://go.dev/dl, or use --images bundle=FILE with an archive that `lab bundle save` of the same version created elsewhere", Err: err,
		}
	}
	return nil
}

// copyOwn writes the source of an embedded module into a folder.
func copyOwn(module, dir string) error {
	return eachOwn(module, func(name string, data []byte) error {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, data, 0o644)
	})
}

func writeOwn(h hash.Hash, module string) error {
	return eachOwn(module, func(name string, data []byte) error {
		write(h, name)
		write(h, string(data))
		return nil
	})
}

// eachOwn visits the files of an embedded module in a fixed order.
func eachOwn(module string, do func(name string, data []byte) error) error {
	own, ok := ownSource(module)
	if !ok {
		return fmt.Errorf("module %q is not lab's own", module)
	}
	if err := errors.Join(do("go.mod", []byte(own.goMod)), do("go.sum", []byte(own.goSum))); err != nil {
		return err
	}
	return fs.WalkDir(own.source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(own.source, name)
		if err != nil {
			return err
		}
		return do(name, data)
	})
}
