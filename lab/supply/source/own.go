package source

import (
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"homelab/lab"
	"homelab/lab/front"
)

// ownModule is a module of lab's own, which is to be had without a network.
type ownModule struct {
	goMod  string
	source fs.FS
}

func ownSource(module string) (ownModule, bool) {
	if module == front.Module {
		return ownModule{front.GoMod, front.Source()}, true
	}
	return ownModule{}, false
}

// CodeNoGo is the code of the error that an image of lab's own cannot be built for want of Go; estates without spec.repositories do without.
const CodeNoGo = "no_go"

// Own reports whether a component is made of nothing but lab's own source, so that it can be made wherever Go is, and nowhere else is it to be had.
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

// possible says why a component cannot be built on this machine, where it cannot.
func (b *Builder) possible(c *Component) error {
	if !b.recipes.Own(c.Name) {
		return Possible()
	}
	if _, err := exec.LookPath("go"); err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: CodeNoGo, Message: c.Name + " is lab's own, and is built on this machine, which has no Go",
			Cure: "install Go from https://go.dev/dl, or use --images bundle=FILE with an archive that `lab bundle save` of the same version made elsewhere", Err: err,
		}
	}
	return nil
}

// copyOwn writes the source of one of lab's own modules into a folder.
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

// eachOwn reads the files of one of lab's own modules, in a fixed order.
func eachOwn(module string, do func(name string, data []byte) error) error {
	own, ok := ownSource(module)
	if !ok {
		return fmt.Errorf("no module %q is lab's own", module)
	}
	if err := do("go.mod", []byte(own.goMod)); err != nil {
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
