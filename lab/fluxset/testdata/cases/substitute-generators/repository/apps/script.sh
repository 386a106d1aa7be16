echo ${X[@]}
