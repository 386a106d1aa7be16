package ui

import (
	"time"
)

// OnlyInForge is others' content that exists only in the forge, and is lost with it.
type OnlyInForge struct {
	Unknown      string             `json:"unknown"` // why it is not known; empty if it is
	Commits      List[ForgeCommit]  `json:"commits"` // newest first within a branch
	PullRequests List[ForgeRequest] `json:"pull_requests"`
	Items        List[ForgeItem]    `json:"items"`
	Repositories List[string]       `json:"repositories"` // OWNER/NAME
	Summary      string             `json:"-"`            // "2 commits, 1 pull request"; empty if there is nothing
	ListedBy     string             `json:"-"`            // command that lists it
}

// ForgeCommit is a commit in OnlyInForge.
type ForgeCommit struct {
	Repository string       `json:"repository"` // estate, or a mirror's name
	Branch     string       `json:"branch"`     // or "tag NAME"
	Commit     string       `json:"commit"`     // full hash
	Author     string       `json:"author"`
	Time       time.Time    `json:"time"`
	Message    string       `json:"message"`
	Files      List[string] `json:"files"` // changed paths
}

// ForgeRequest is an open pull request.
type ForgeRequest struct {
	Repository string `json:"repository"` // OWNER/NAME
	Number     int64  `json:"number"`
	Title      string `json:"title"`
	Author     string `json:"author"`
}

// ForgeItem is an issue, a release or a page of a wiki.
type ForgeItem struct {
	Kind       string `json:"kind"`       // issue, release or wiki page
	Repository string `json:"repository"` // OWNER/NAME
	Title      string `json:"title"`
	Author     string `json:"author"` // may be empty
}

// LogResult is `lab git log -o json`, newest first.
type LogResult struct {
	Commits List[LogCommit] `json:"commits"`
}

// LogCommit is a commit in the forge.
type LogCommit struct {
	Commit  string    `json:"commit"` // full hash
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"` // subject
}

// PushResult is `lab git push -o json`.
type PushResult struct {
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"` // false if the forge already had this tree
}

// PullResult is `lab git pull -o json`.
type PullResult struct {
	Commit    string          `json:"commit"`    // the forge's head, now in the working tree; may be empty
	DryRun    bool            `json:"dry_run"`   // nothing was written
	Commits   List[LogCommit] `json:"commits"`   // pulled commits, newest first
	Files     List[PullFile]  `json:"files"`     // sorted
	Committed string          `json:"committed"` // commit in the enclosing repository; may be empty
	Reason    string          `json:"reason"`    // why there is none; empty without a repository
	Next      string          `json:"next"`      // suggested command; may be empty
}

// PullFile is the result for one file.
type PullFile struct {
	Path   string    `json:"path"`
	Did    string    `json:"did"`    // took, merged, conflict or kept
	Note   string    `json:"note"`   // reason, if not obvious
	Lines  List[int] `json:"lines"`  // line numbers of conflicts
	Beside string    `json:"beside"` // path of a forge file that could not take its place
}
