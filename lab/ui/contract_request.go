package ui

import "time"

// Request is a pull request on the forge.
type Request struct {
	Repository  string    `json:"repository"` // OWNER/NAME
	Number      int64     `json:"number"`
	Title       string    `json:"title"`
	Author      string    `json:"author"`
	State       string    `json:"state"` // open, merged or closed
	Head        string    `json:"head"`  // branch
	Base        string    `json:"base"`  // branch that it is for
	Fork        string    `json:"fork"`  // repository of head, if it is another one
	Commit      string    `json:"commit"`
	BaseCommit  string    `json:"base_commit"`
	MergeCommit string    `json:"merge_commit"` // empty before the merge
	Mergeable   bool      `json:"mergeable"`    // known to have no conflict
	Draft       bool      `json:"draft"`
	Created     time.Time `json:"created"`
	Updated     time.Time `json:"updated"`
}

// RequestList is `lab git pr ls -o json`, newest first.
type RequestList struct {
	Requests List[Request] `json:"requests"`
}

// RequestView is `lab git pr view -o json`.
type RequestView struct {
	Request  Request              `json:"request"`
	Body     string               `json:"body"`
	Statuses List[RequestStatus]  `json:"statuses"` // of its commit, the newest of each check
	Comments List[RequestComment] `json:"comments"` // oldest first
}

// RequestStatus is what a check says about a commit.
type RequestStatus struct {
	Check       string    `json:"check"`
	State       string    `json:"state"` // pending, success, failure, error or warning
	Description string    `json:"description"`
	URL         string    `json:"url"` // may be empty
	Author      string    `json:"author"`
	Time        time.Time `json:"time"`
}

// RequestComment is a comment on a pull request.
type RequestComment struct {
	Author  string    `json:"author"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Body    string    `json:"body"`
}

// RequestResult is `lab git pr open|comment|status|merge|close -o json`.
type RequestResult struct {
	Request Request `json:"request"`
	Changed bool    `json:"changed"` // false if it was so already
}

// PromoteRequestResult is `lab promote --pr -o json`.
type PromoteRequestResult struct {
	Request    Request             `json:"request"` // number 0 if there is nothing to promote, or with --dry-run
	Changed    bool                `json:"changed"` // false if it was so already
	Promotions List[PromoteResult] `json:"promotions"`
	Gates      List[RequestStatus] `json:"gates"` // commit statuses
}

// BotResult is `lab git bot -o json`.
type BotResult struct {
	User  string `json:"user"`
	URL   string `json:"url"`   // of the repository, with --credentials including the token
	API   string `json:"api"`   // of the repository
	Token string `json:"token"` // empty without --credentials
}

// CreatedResult is `lab git create -o json`.
type CreatedResult struct {
	User    string `json:"user"`
	URL     string `json:"url"`     // of the repository, with --credentials including the token
	API     string `json:"api"`     // of the repository
	Token   string `json:"token"`   // empty without --credentials
	Changed bool   `json:"changed"` // false if the repository was there
}
