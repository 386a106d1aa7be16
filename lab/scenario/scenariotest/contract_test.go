package scenariotest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab/scenario"
)

func TestForgeContract(t *testing.T) {
	f := &Forge{branches: map[string][]Commit{scenario.Branch: {{Hash: "0", files: ContractFiles()}}}, pushed: func() {}}
	ForgeContract(t, f, f)
}

func TestRequestsContract(t *testing.T) {
	f := &Forge{branches: map[string][]Commit{scenario.Branch: {{Hash: "0", files: ContractFiles()}}}, pushed: func() {}}
	RequestsContract(t, f, f.Requests())
}

func TestRegistryContract(t *testing.T) { RegistryContract(t, &Registry{}) }

func TestEngineContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(t, os.DirFS(filepath.Join("..", "..", "..")))
		EngineContract(t, Hub{
			Engine: l.Engine, Shut: l.Engine.Shut, Open: l.Engine.Open, Patience: time.Minute,
			Expects: []scenario.Subject{scenario.ApplicationOf("prod", "podinfo"), scenario.ApplicationOf("dev", "podinfo")},
		})
	})
}
