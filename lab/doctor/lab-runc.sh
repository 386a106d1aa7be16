#!/bin/sh
# lab-runc: runc, without asking for CAP_SYS_RESOURCE. Written by `lab doctor --fix`.
#
# Where the host's capability bounding set lacks CAP_SYS_RESOURCE, runc cannot start a privileged container, because it asks for all capabilities
# and is refused this one. Here it is taken out of what the engine asks for: out of the bundle's config.json (create, run) and out of the process
# file (exec). No container gains anything by it.
#
# The pattern stays within "capabilities":{...}. A string inside a JSON string has its quotes escaped, so arguments and variables are never touched.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
file= flag=
for arg do
	case $flag in
	-b | --bundle) file=$arg/config.json ;;
	-p | --process) file=$arg ;;
	esac
	case $arg in
	--bundle=*) file=${arg#*=}/config.json ;;
	--process=*) file=${arg#*=} ;;
	esac
	flag=$arg
done
if [ -f "$file" ]; then
	sed -i -z \
		-e ':name' -e 's/\("capabilities":[[:space:]]*{[^}]*[[,][[:space:]]*\)"CAP_SYS_RESOURCE"[[:space:]]*,\{0,1\}/\1/' -e 't name' \
		-e ':comma' -e 's/\("capabilities":[[:space:]]*{[^}]*\),[[:space:]]*]/\1]/' -e 't comma' "$file" || exit
fi
exec @RUNC@ "$@"
