#!/bin/bash
# The side without network and credentials. `tofu.sh apply` keeps what exists as the branch says, `tofu.sh plan` says what requests would change, and can write nothing else.
set -uo pipefail

# enter FOLDER: a copy of an infrastructure, with the state that it is of.
enter() {
	cd / && rm -rf /tmp/work && cp -r "$1" /tmp/work && cd /tmp/work || return
	printf '%s\n' 'terraform {' 'backend "local" {' 'path = "/state/terraform.tfstate"' '}' '}' >lab_override.tf
	tofu init -input=false -get=false -no-color
}

# tell STATE TEXT: what became of a commit, for people and for the Git server.
tell() {
	echo "$head: $1: $2"
	printf '{"commit":"%s","state":"%s","mended":"%s"}\n' "$head" "$1" "$mended" >/report/status.json.new && mv /report/status.json.new /report/status.json
	printf '%s\n%s\n' "$1" "$2" >/report/new && mv /report/new "/report/$head"
}

apply() {
	local head='' ready='' applied='' mended='' now next=0 code
	while sleep 1; do
		now=$(cat /main/head 2>/dev/null) || continue
		[[ $now == "$head" && $SECONDS -lt $next ]] && continue
		if [[ $now != "$head" ]]; then
			rm -f /report/[0-9a-f]*
			head=$now ready=''
			enter "/main/$head" >/tmp/said 2>&1 && ready=yes
		fi
		next=$((SECONDS + INTERVAL))
		if [[ -z $ready ]]; then
			cat /tmp/said
			tell error "tofu init failed" && head='' && sleep 5
			continue
		fi
		timeout -s INT 120 tofu plan -input=false -no-color -detailed-exitcode -out=/tmp/plan >/tmp/said 2>&1
		code=$?
		if ((code == 2)); then
			cat /tmp/said
			timeout -s INT 600 tofu apply -input=false -no-color /tmp/plan >/tmp/said 2>&1 && code=0
			[[ $applied == "$head" ]] && mended=$head
		elif ((code == 0)) && [[ $applied == "$head" ]]; then
			continue
		fi
		cat /tmp/said
		if ((code == 0)); then
			applied=$head
			tofu output -json -no-color >/report/outputs.json.new && mv /report/outputs.json.new /report/outputs.json
			tell success "$(grep -E '^(Apply complete|No changes)' /tmp/said | head -n 1)"
		else
			tell failure "$(grep -m 1 Error: /tmp/said || echo "tofu printed no error, or did not end in time")"
		fi
	done
}

plan() {
	local commit code
	while sleep 1; do
		for commit in /request/*/; do
			commit=$(basename "$commit")
			[[ $commit =~ ^[0-9a-f]{40}$ && ! -e /plan/$commit ]] || continue
			code=1
			echo "Error: it needs more time or memory than there is" >/tmp/said
			if [[ ! -e /plan/$commit.began ]]; then # else this pod has ended over it
				touch "/plan/$commit.began"
				{ enter "/request/$commit" >/tmp/init || { cat /tmp/init && false; }; } >/tmp/said 2>&1 && timeout 60 tofu plan -input=false -lock=false -no-color >/tmp/said 2>&1
				code=$?
			fi
			{ echo $code && head -c 30000 /tmp/said; } >/plan/new && mv /plan/new "/plan/$commit"
		done
	done
}

"$1"
