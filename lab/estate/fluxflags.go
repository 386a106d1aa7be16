package estate

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
)

// components is the file in which `flux bootstrap` writes Flux; the kustomization beside it configures the controllers:
// https://fluxcd.io/flux/installation/configuration/
const components = "gotk-components.yaml"

// flag matches the flags of Flux's controllers that decide what they apply, and the fields of a FluxInstance that set them: https://fluxcd.io/flux/components/,
// https://fluxoperator.dev/docs/crd/fluxinstance/
var flag = regexp.MustCompile(`--(?:no-cross-namespace-refs|no-remote-bases|default(?:-decryption|-kubeconfig)?-service-account|feature-gates|insecure-allow-http|watch-all-namespaces|watch-label-selector)(?:=[^\s"',\]]+)?|\bmultitenant: *true|\btenantDefaultServiceAccount: *[\w-]+`)

// fluxFlags notes the flags that a mounted root gives to its own Flux.
func (l *loader) fluxFlags(root fluxset.Application) {
	var found []string
	var at lab.Position
	_ = fs.WalkDir(root.Built.FS, path.Clean(cmp.Or(root.Built.Path, ".")), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".yaml" && path.Ext(file) != ".yml" || path.Base(file) == components {
			return nil //nolint:nilerr // the build reports errors
		}
		text, _ := fs.ReadFile(root.Built.FS, file)
		if _, err := fs.Stat(root.Built.FS, path.Join(path.Dir(file), components)); err != nil && !bytes.Contains(text, []byte("kind: FluxInstance")) {
			return nil //nolint:nilerr // not beside Flux
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, f := range flag.FindAllString(line, -1) {
				if found = appendNew(found, f); at.File == "" {
					at = lab.Position{File: root.Place(file), Line: i + 1}
				}
			}
		}
		return nil
	})
	if len(found) > 0 {
		l.note(finding.LeftOut, at, "flags of Flux's controllers, left out, as the lab has its own Flux: "+strings.Join(found, ", "),
			"spec.engine.values of the hub gives them to the lab's, as kustomizeController.container.additionalArgs; offline they are not followed")
	}
}
