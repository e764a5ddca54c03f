/* The canary under a main function in C. It is linked as in 2018, when this gave the service the system's malloc. */

/* Runs until SIGTERM or SIGINT, and returns the exit code. */
int kube_canary(int argc, const char *const *argv);

int main(int argc, char **argv) { return kube_canary(argc, (const char *const *)argv); }
