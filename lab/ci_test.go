package lab_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"homelab/lab/e2e/shard"
)

// taskRun matches the tasks that a workflow step runs.
var taskRun = regexp.MustCompile(`\$TASK ([a-z0-9-]+)`)

// stageRun matches the lines of .ci/stages that run stages.
var stageRun = regexp.MustCompile(`(?m)^ *(?:foreground|background|for suite in) ([a-z0-9][a-z0-9 -]*)`)

// The workflow runs every stage of `task ci`, which is what .ci/run does.
func TestWorkflowRunsEveryStage(t *testing.T) {
	var tasks struct {
		Tasks map[string]yaml.Node
	}
	readYAML(t, filepath.Join("..", "Taskfile.yml"), &tasks)
	script, err := os.ReadFile(filepath.Join("..", ".ci", "stages"))
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	for _, m := range stageRun.FindAllStringSubmatch(string(script), -1) {
		stages = append(stages, strings.Fields(m[1])...)
	}
	if len(stages) < 9 {
		t.Fatalf(".ci/stages has only the stages %q", stages)
	}
	var workflow struct {
		Jobs map[string]struct {
			If       string
			Strategy struct {
				Matrix struct{ Shard []int }
			}
			Steps []struct {
				Run      string
				If       string
				Continue bool `yaml:"continue-on-error"`
			}
		}
	}
	readYAML(t, filepath.Join("..", ".github", "workflows", "ci.yaml"), &workflow)
	var ran []string
	for job, j := range workflow.Jobs {
		for _, step := range j.Steps {
			for _, m := range taskRun.FindAllStringSubmatch(step.Run, -1) {
				if _, ok := tasks.Tasks[m[1]]; !ok {
					t.Errorf("job %s runs task %s, which does not exist", job, m[1])
				}
				if j.If == "" && step.If == "" && !step.Continue {
					ran = append(ran, m[1])
				}
			}
		}
	}
	table, err := os.Open(filepath.Join("..", "docs", "tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	tests, err := shard.Read(table)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := workflow.Jobs["e2e"].Strategy.Matrix.Shard, len(shard.Shards(tests, shard.Size)); len(got) != want || got[0] != 0 || got[want-1] != want-1 {
		t.Errorf("the hosted workflow plays shards %v, want 0 to %d", got, want-1)
	}
	for _, stage := range stages {
		if !slices.Contains(ran, stage) {
			t.Errorf("no job of the hosted workflow runs stage %s in every case", stage)
		}
	}
}

// The weekly workflow runs an existing task and may do nothing but read the code and write issues.
func TestOutdatedWorkflow(t *testing.T) {
	var tasks struct{ Tasks map[string]yaml.Node }
	readYAML(t, filepath.Join("..", "Taskfile.yml"), &tasks)
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []struct{ Run string }
		}
	}
	readYAML(t, filepath.Join("..", ".github", "workflows", "outdated.yaml"), &workflow)
	job := workflow.Jobs["outdated"]
	if want := map[string]string{"contents": "read", "issues": "write"}; len(workflow.Jobs) != 1 || len(workflow.Permissions) > 0 || !maps.Equal(job.Permissions, want) {
		t.Errorf("permissions %v of all jobs, %v of one, want none and %v", workflow.Permissions, job.Permissions, want)
	}
	ran := 0
	for _, step := range job.Steps {
		for _, m := range regexp.MustCompile(`\$TASK --silent ([a-z]+)`).FindAllStringSubmatch(step.Run, -1) {
			if _, ok := tasks.Tasks[m[1]]; ok && m[1] == "outdated" {
				ran++
			}
		}
	}
	if ran != 1 {
		t.Errorf("task outdated is run %d times", ran)
	}
}

// taskNamed matches the tasks that documents mention.
var taskNamed = regexp.MustCompile(`(?:` + "`" + `|go\.mod )task ([a-z][a-z0-9 -]*)`)

// Every task that the documents mention exists in the Taskfile.
func TestDocumentedTasksExist(t *testing.T) {
	var tasks struct{ Tasks map[string]*yaml.Node }
	readYAML(t, filepath.Join("..", "Taskfile.yml"), &tasks)
	documents, err := filepath.Glob(filepath.Join("..", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range append(documents, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range taskNamed.FindAllStringSubmatch(string(text), -1) {
			for _, name := range strings.Fields(m[1]) {
				if strings.HasPrefix(name, "-") {
					break // arguments
				}
				if named++; tasks.Tasks[name] == nil {
					t.Errorf("%s mentions the task %q, which does not exist", file, name)
				}
			}
		}
	}
	if named < 3 {
		t.Errorf("found only %d tasks", named)
	}
}

func readYAML(t *testing.T, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
