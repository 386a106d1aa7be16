package workspace

import (
	"fmt"
	"strings"

	"homelab/lab"
	"homelab/lab/bridge"
)

// Served returns the forge's name of a repository, given its name or address, by default the estate's.
func (w *Workspace) Served(repository string) (string, error) {
	if repository == "" || repository == bridge.Estate {
		return bridge.Estate, nil
	}
	est, err := w.Load()
	if err != nil {
		return "", err
	}
	names := []string{bridge.Estate}
	for _, r := range est.Repositories {
		if r.Name == repository || lab.RepositoryKey(r.URL) == lab.RepositoryKey(repository) {
			return r.Name, nil
		}
		names = append(names, r.Name)
	}
	return "", &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no repository %s", repository), Cure: "there are " + strings.Join(names, ", ")}
}
