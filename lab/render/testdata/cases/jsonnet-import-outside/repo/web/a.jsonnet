import '../../../../etc/passwd'
