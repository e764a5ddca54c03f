# The same service with tikv-jemallocator.
. "$here/services/axum_glibc.sh"
feature=jemalloc
remedies() {
    cat <<'LIST'
give-back now give_back
background-thread start _RJEM_MALLOC_CONF=background_thread:true
background-decay-1s start _RJEM_MALLOC_CONF=background_thread:true,dirty_decay_ms:1000
decay-0 start _RJEM_MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0
narenas-1 start _RJEM_MALLOC_CONF=narenas:1
narenas-2 start _RJEM_MALLOC_CONF=narenas:2
narenas-2-bt start _RJEM_MALLOC_CONF=narenas:2,background_thread:true
tcache-off start _RJEM_MALLOC_CONF=tcache:false
plain-name start MALLOC_CONF=background_thread:true,dirty_decay_ms:0
fewer-threads start threads=8
LIST
}
