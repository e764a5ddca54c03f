# ffmpeg: a picture and a sound that it makes itself, filtered, encoded and decoded with four threads. Not by x264, whose output depends on
# memory that it has not written: MALLOC_PERTURB_ changes it without a preload.
packages="ffmpeg"
program() { readlink -f "$(command -v ffmpeg)"; }
version() { ffmpeg -version | awk 'NR == 1 { sub(/-.*/, "", $3); print $3 }'; }
run() {
    ffmpeg -nostdin -v error -threads 4 -f lavfi -i testsrc2=d=2:s=480x270:r=25 -f lavfi -i sine=d=2:f=440 -c:v mpeg4 -threads 4 \
        -c:a aac -flags +bitexact -fflags +bitexact -y out.mkv
    echo "encoded $?"
    cksum < out.mkv
    ffmpeg -nostdin -v error -threads 4 -i out.mkv -vf 'scale=320:180,hflip,boxblur=2,split[a][b];[a][b]vstack' -filter_threads 4 \
        -f framemd5 - | md5sum
    ffprobe -v error -count_frames -show_entries stream=codec_name,nb_read_frames -of csv out.mkv
}
