package scenariotest

import (
	"testing"

	"homelab/lab/scenario"
)

func TestForgeKeepsTheContract(t *testing.T) {
	f := &Forge{branches: map[string][]Commit{scenario.Branch: {{Hash: "0", files: ContractFiles()}}}, pushed: func() {}}
	ForgeContract(t, f, f)
}
