#!/bin/sh
# docker, whose privileged containers get the runtime lab-runc where the engine has it. Written by `lab doctor --fix`.
#
# The runtime is not the engine's default, so that nobody else's containers change. kind has no option for it, but runs the docker command on PATH: lab
# puts this folder there, for itself alone.
own=@DIR@
rest=:$PATH:
while :; do
	case $rest in
	*:"$own":*) rest=${rest%%:"$own":*}:${rest#*:"$own":} ;;
	*) break ;;
	esac
done
PATH=${rest#:}
PATH=${PATH%:}
case $1 in
run | create)
	for arg do
		[ "$arg" = --privileged ] || continue
		case $(docker info --format '{{json .Runtimes}}' 2>/dev/null </dev/null) in
		*'"lab-runc"'*)
			command=$1
			shift
			exec docker "$command" --runtime lab-runc "$@"
			;;
		esac
		break
	done
	;;
esac
exec docker "$@"
