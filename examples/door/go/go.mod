module door

go 1.19
