/* The canary under a main function in C. Linked this way in 2018, so that the service got the system's malloc. */

/* Until SIGTERM or SIGINT; gives the exit code. */
int kube_canary(int argc, const char *const *argv);

int main(int argc, char **argv) { return kube_canary(argc, (const char *const *)argv); }
