#!/bin/bash
# The side with the network and the token. It runs nothing of the repository: files go to /main and /request, and what tofu said comes back in /report and /plan.
set -uo pipefail

quote() {
	local s=${1//\\/\\\\}
	s=${s//\"/\\\"} s=${s//$'\n'/\\n} s=${s//$'\t'/\\t}
	printf '"%s"' "${s//[[:cntrl:]]/}"
}

# ask PATH [KEY TEXT]...: asks the Git server, or tells it something.
ask() {
	local path=$1 json=
	shift
	while (($#)); do json+=,$(quote "$1"):$(quote "$2") && shift 2; done
	busybox wget -q -O - -T 20 --header "Authorization: token $FORGE_TOKEN" --header "Content-Type: application/json" ${json:+--post-data "{${json#,}}"} "$api/$path"
}

# take COMMIT FOLDER: the infrastructure of a commit. Links, other kinds of files and overrides of what tofu is told here are not taken, nor is what may run a program during a plan.
take() {
	local mode type id size name
	rm -rf "$2.new" && mkdir "$2.new" || return
	while read -r mode type id size name; do
		name=${name#"$FOLDER/"}
		if [[ $mode != 100644 || ! $name =~ ^[a-z0-9_-]+\.tf$ || $name == *override.tf || $size -gt 65536 ]]; then
			echo "$name: only small files NAME.tf are taken"
			return 1
		fi
		git cat-file blob "$id" >"$2.new/$name"
		if grep -qw encryption "$2.new/$name"; then
			echo "$name: encryption may run programs"
			return 1
		fi
	done < <(git ls-tree -l "$1" "$FOLDER/")
	mv "$2.new" "$2"
}

# main: the branch is what is to exist, and its commit gets what became of it as a status.
main() {
	local head state said
	head=$(git rev-parse refs/main)
	if [[ ! -d /main/$head && $head != "$refused" ]]; then
		if said=$(take "$head" "/main/$head"); then
			echo "$head" >/main/head.new && mv /main/head.new /main/head
			find /main -mindepth 1 -maxdepth 1 -type d ! -name "$head" -exec rm -rf {} +
		else
			ask "statuses/$head" context tofu/apply state error description "$said" >/dev/null && refused=$head
		fi
	fi
	[[ $told != "$head" && -e /report/$head ]] || return
	{ read -r state && read -r said; } <"/report/$head"
	ask "statuses/$head" context tofu/apply state "$state" description "$said" >/dev/null && told=$head
}

# request NUMBER COMMIT: an open request that changes the infrastructure gets its plan as a comment and a status.
request() {
	local answer=/plan/$2 code said state=success
	if [[ ! -d /request/$2 ]]; then
		git diff --quiet "refs/main...$2" -- "$FOLDER" && return
		said=$(ask "pulls/$1") || return 1
		[[ $said == *'"state":"open"'* ]] || return 0
		if ! said=$(take "$2" "/request/$2"); then
			ask "statuses/$2" context tofu/plan state error description "$said" >/dev/null
			return
		fi
	fi
	[[ -e $answer ]] || return
	{ read -r code && said=$(cat); } <"$answer"
	[[ $code == 0 ]] || state=failure
	ask "statuses/$2" context tofu/plan state $state description "$(grep -E '^(Plan:|No changes|.*Error:)' <<<"$said" | head -n 1 | head -c 200)" >/dev/null &&
		ask "issues/$1/comments" body "What a merge of ${2:0:10} would change outside of the clusters:"$'\n\n'"$(sed 's/^/    /' <<<"$said")" >/dev/null
}

(return 2>/dev/null) && return # sourced by a test

if [[ -z $FORGE_USER ]]; then
	echo "no credentials: nothing is done"
	exec sleep infinity
fi
[[ $REPOSITORY =~ ^(https?://[^/]+)/(.+)\.git$ ]] || { echo "$REPOSITORY is not http://HOST/OWNER/NAME.git"; exit 1; }
api=${BASH_REMATCH[1]}/api/v1/repos/${BASH_REMATCH[2]}
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=credential.helper
export GIT_CONFIG_VALUE_0='!f() { echo "username=$FORGE_USER"; echo "password=$FORGE_TOKEN"; }; f'
cd /tmp && git init -q --bare repository && cd repository || exit 1
git remote add origin "$REPOSITORY" 2>/dev/null
told='' refused=''
while :; do
	if timeout 60 git fetch -q --prune origin "+refs/heads/$BRANCH:refs/main" "+refs/pull/*/head:refs/pull/*"; then
		main
		while read -r ref commit; do
			[[ -e /request/$commit.done ]] || { request "${ref##*/}" "$commit" && touch "/request/$commit.done"; }
		done < <(git for-each-ref --format="%(refname) %(objectname)" refs/pull)
	fi
	sleep 3
done
